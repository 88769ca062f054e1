package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// Contents are the blobs of a version, by their hashes.
type Contents map[string][]byte

// add adds a content and returns its blob.
func (c Contents) add(content []byte) Blob {
	b := BlobOf(content)
	c[b.Sum] = content
	return b
}

// Replace returns a copy of the manifest in which these lists of it have another content. Its hash
// is still the former one.
func (m *Manifest) Replace(lists []ListFile, next Blob) *Manifest {
	changed := *m
	changed.Lists = slices.Clone(m.Lists)
	for i := range changed.Lists {
		if l := &changed.Lists[i]; slices.Contains(lists, *l) {
			l.Blob = next
		}
	}
	return &changed
}

// Read reads rule files with their word lists, tables and keys, as at most limit bytes, and
// parses them with the pauses of ctx. The manifest has the files, the hash and the number of
// rules. The set and the manifest are nil if there is an error or a finding with severity
// error.
func Read(ctx context.Context, files reload.Files, limit int64) (*rules.Set, *Manifest, Contents, rules.Findings, error) {
	sources, err := files.Sources()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	m, contents, total := &Manifest{}, make(Contents), int64(0)
	for i := range sources {
		// Instances look up nothing by this name; findings mention it.
		sources[i].Name = filepath.ToSlash(sources[i].Name)
		total += int64(len(sources[i].Text))
		m.Files = append(m.Files, File{sources[i].Name, contents.add(sources[i].Text)})
	}
	o := files.Rules
	open(ctx, &o, func(source, path string) ([]byte, error) {
		content, err := readList(files.ListPath(source, path), limit-total)
		if err != nil {
			return nil, err
		}
		total += int64(len(content))
		m.Lists = append(m.Lists, ListFile{source, path, contents.add(content)})
		return content, nil
	})
	set, findings := rules.Parse(sources, o)
	switch {
	case findings.HasErrors():
		return nil, nil, nil, findings, nil
	case total > limit:
		return nil, nil, nil, nil, fmt.Errorf("the rules are larger than max_version_bytes, %d bytes", limit)
	}
	m.Hash, m.Rules = set.Hash, len(set.Rules)
	return set, m, contents, findings, nil
}

// readList reads a regular file of at most limit bytes.
func readList(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: with it the rules are larger than max_version_bytes", path)
	}
	f, err := os.Open(path) //nolint:gosec // the publisher names the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s: with it the rules are larger than max_version_bytes", path)
	}
	return content, err
}

// open makes the parser read word lists, tables and keys by a function. Secrets are not for
// Redis: symmetric and private keys are refused.
func open(ctx context.Context, o *rules.Options, read func(source, path string) ([]byte, error)) {
	o.OpenDict = func(source, path string) (*rules.Dict, error) {
		return opened(ctx, read, source, path, rules.ParseDict)
	}
	o.OpenTable = func(source, path string) (*rules.Table, error) {
		return opened(ctx, read, source, path, rules.ParseTable)
	}
	o.OpenKeys = func(source, path string) ([]byte, error) {
		text, err := read(source, path)
		if err == nil && tokens.HasSecret(text) {
			err = errSecret
		}
		return text, err
	}
	if o.OpenToken == nil {
		o.OpenToken = tokens.Offline
	}
}

var errSecret = errors.New("it has a symmetric or private key, and published rules carry no secrets")

func opened[T any](ctx context.Context, read func(source, path string) ([]byte, error), source, path string, parse func(string, io.Reader) (*T, error)) (*T, error) {
	content, err := read(source, path)
	if err != nil {
		return nil, err
	}
	return parse(path, pace.Reader(ctx, bytes.NewReader(content)))
}

// Parse parses a version with the options of an instance. It reads nothing but the
// contents. The error states the first finding and the number of the others, or comes from
// ctx, which may be one of pace.With.
func Parse(ctx context.Context, m *Manifest, contents Contents, o rules.Options) (*rules.Set, rules.Findings, error) {
	sources := make([]rules.Source, len(m.Files))
	for i, f := range m.Files {
		sources[i] = rules.Source{Name: f.Name, Text: contents[f.Sum]}
	}
	o.Pause = pace.Pauses(ctx)
	open(ctx, &o, func(source, path string) ([]byte, error) {
		for i := range m.Lists {
			if l := &m.Lists[i]; l.Source == source && l.Path == path {
				return contents[l.Sum], nil
			}
		}
		return nil, fmt.Errorf("%s: the version does not contain it", path)
	})
	set, findings := rules.Parse(sources, o)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if findings.HasErrors() {
		return nil, findings, &reload.FindingsError{Findings: findings}
	}
	return set, findings, nil
}
