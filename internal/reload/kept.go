package reload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// kept is a folder with a copy of the last active rule set, its rule files,
// word lists, tables and keys, for a start with invalid files. Each set has its own subfolder, and
// the file `current` names the complete one: it is replaced atomically, so that
// a crash leaves the old set or the new one.
type kept struct{ dir string }

const (
	currentFile  = "current"
	manifestFile = "manifest.json"
	setPrefix    = "rules-"
	// maxManifest is the maximum size of a manifest and of `current`, in bytes.
	maxManifest = 16 << 20
)

// manifest describes the content of a set's folder.
type manifest struct {
	// Hash is the hash of the set. It covers the content of all its files, so
	// it detects a set that was modified or truncated.
	Hash    string    `json:"hash"`
	SavedAt time.Time `json:"saved_at"`
	// Paths and DictRoot are the origin of the set. A service with other paths
	// does not use it.
	Paths    []string   `json:"paths"`
	DictRoot string     `json:"dict_root"`
	Sources  []keptFile `json:"sources"`
	Lists    []keptFile `json:"lists"` // word lists, tables and keys
}

// keptFile is the copy of a file: its original path, and its name in the set's
// folder. Size and ModTime describe a word list when it was copied.
type keptFile struct {
	Path    string    `json:"path"`
	File    string    `json:"file"`
	Size    int64     `json:"size,omitempty"`
	ModTime time.Time `json:"mod_time,omitzero"`
}

// errListChanged reports that a word list has changed since it was read.
var errListChanged = errors.New("the word list has changed since it was read")

// save copies a set that r has read, unless the folder already contains it.
func (k kept) save(set *rules.Set, files Files, r *reader, now time.Time) error {
	before, beforeDir, err := k.manifest()
	if err == nil && before.Hash == set.Hash && before.isFrom(files) && before.isComplete(beforeDir, set, r) {
		return nil
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(k.dir, setPrefix)
	if err != nil {
		return err
	}
	m := manifest{Hash: set.Hash, SavedAt: now, Paths: files.Paths, DictRoot: files.DictRoot}
	for i, s := range set.Sources {
		f := keptFile{Path: s.Name, File: fmt.Sprintf("%03d.conf", i)}
		err = errors.Join(err, writeSynced(filepath.Join(dir, f.File), s.Text))
		m.Sources = append(m.Sources, f)
	}
	for _, path := range r.listPaths() {
		f := keptFile{Path: path, File: fmt.Sprintf("%03d.list", len(m.Lists))}
		err = errors.Join(err, f.copyList(r.seen[path], dir, before, beforeDir))
		m.Lists = append(m.Lists, f)
	}
	if err == nil {
		err = k.finish(dir, &m)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	k.removeOthers(filepath.Base(dir))
	return nil
}

// listPaths returns the paths of the word lists, tables and keys that were read, each once.
func (r *reader) listPaths() []string {
	paths := slices.AppendSeq(slices.Collect(maps.Keys(r.lists)), maps.Keys(r.tables))
	paths = slices.AppendSeq(paths, maps.Keys(r.keys))
	slices.Sort(paths)
	return slices.Compact(paths)
}

// finish writes the manifest of a folder and makes the folder the current set.
func (k kept) finish(dir string, m *manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(dir, manifestFile), text); err != nil {
		return err
	}
	if err := syncFolder(dir); err != nil {
		return err
	}
	next := filepath.Join(k.dir, currentFile+"~")
	if err := writeSynced(next, []byte(filepath.Base(dir)+"\n")); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(k.dir, currentFile)); err != nil {
		return err
	}
	return syncFolder(k.dir)
}

// copyList copies the word list at f.Path, with the given stamp, into dir. If the
// previous set contains it, it is linked instead, because lists may be large.
func (f *keptFile) copyList(seen stamp, dir string, before *manifest, beforeDir string) error {
	if seen.info == nil {
		return errListChanged
	}
	f.Size, f.ModTime = seen.info.Size(), seen.info.ModTime()
	to := filepath.Join(dir, f.File)
	if before != nil {
		at := slices.IndexFunc(before.Lists, func(o keptFile) bool {
			return o.Path == f.Path && o.Size == f.Size && o.ModTime.Equal(f.ModTime)
		})
		// Equal time and size do not imply equal content: packages give all
		// their files the same time.
		if at >= 0 {
			old := filepath.Join(beforeDir, filepath.Base(before.Lists[at].File))
			if isSameContent(old, f.Path) && os.Link(old, to) == nil {
				return nil
			}
		}
	}
	from, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := writeFrom(to, io.LimitReader(from, maxDict+1)); err != nil {
		return err
	}
	if !seen.same(stampOf(f.Path)) {
		return fmt.Errorf("%s: %w", f.Path, errListChanged)
	}
	return nil
}

// removeOthers removes the folders of all sets except name. Errors are ignored:
// a remaining folder does no harm.
func (k kept) removeOthers(name string) {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), setPrefix) && e.Name() != name {
			_ = os.RemoveAll(filepath.Join(k.dir, e.Name()))
		}
	}
}

// isFrom reports whether the set was read from these files.
func (m *manifest) isFrom(files Files) bool {
	return slices.Equal(m.Paths, files.Paths) && m.DictRoot == files.DictRoot
}

// isComplete reports whether the folder still contains the set that r has read.
// For word lists it compares only the size, because they may be large.
func (m *manifest) isComplete(dir string, set *rules.Set, r *reader) bool {
	paths := r.listPaths()
	if len(m.Sources) != len(set.Sources) || len(m.Lists) != len(paths) {
		return false
	}
	for i, f := range m.Sources {
		text, err := readWhole(filepath.Join(dir, filepath.Base(f.File)), maxRuleFile)
		if err != nil || !bytes.Equal(text, set.Sources[i].Text) {
			return false
		}
	}
	for _, f := range m.Lists {
		info, err := os.Lstat(filepath.Join(dir, filepath.Base(f.File)))
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size || !slices.Contains(paths, f.Path) {
			return false
		}
	}
	return true
}

// isSameContent reports whether two files are readable and have the same content.
func isSameContent(a, b string) bool {
	sums := [2]hash.Hash{sha256.New(), sha256.New()}
	for i, path := range []string{a, b} {
		if _, err := readFile(path, maxDict, func(text io.Reader) error {
			_, err := io.Copy(sums[i], text)
			return err
		}); err != nil {
			return false
		}
	}
	return bytes.Equal(sums[0].Sum(nil), sums[1].Sum(nil))
}

// manifest returns the manifest of the current set and the set's folder.
func (k kept) manifest() (*manifest, string, error) {
	name, err := readWhole(filepath.Join(k.dir, currentFile), maxManifest)
	if err != nil {
		return nil, "", err
	}
	folder := strings.TrimSpace(string(name))
	if !strings.HasPrefix(folder, setPrefix) || folder != filepath.Base(folder) {
		return nil, "", fmt.Errorf("%s: it does not name a folder with rules", filepath.Join(k.dir, currentFile))
	}
	dir := filepath.Join(k.dir, folder)
	text, err := readWhole(filepath.Join(dir, manifestFile), maxManifest)
	if err != nil {
		return nil, "", err
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, "", fmt.Errorf("%s: %w", filepath.Join(dir, manifestFile), err)
	}
	return m, dir, nil
}

// restore reads the current set. It fails if the set was read from other files, or
// if a file has changed.
func (k kept) restore(files Files) (set *rules.Set, savedAt time.Time, err error) {
	m, dir, err := k.manifest()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !m.isFrom(files) {
		return nil, time.Time{}, fmt.Errorf("the rules in %s were read from %q, want %q", dir, m.Paths, files.Paths)
	}
	sources := make([]rules.Source, len(m.Sources))
	for i, f := range m.Sources {
		sources[i].Name = f.Path
		if sources[i].Text, err = readWhole(filepath.Join(dir, filepath.Base(f.File)), maxRuleFile); err != nil {
			return nil, time.Time{}, err
		}
	}
	o := files.Rules
	if o.OpenToken == nil {
		o.OpenToken = tokens.Offline
	}
	o.OpenDict = func(source, path string) (*rules.Dict, error) {
		return restored(m, dir, files.ListPath(source, path), rules.ParseDict)
	}
	o.OpenTable = func(source, path string) (*rules.Table, error) {
		return restored(m, dir, files.ListPath(source, path), rules.ParseTable)
	}
	o.OpenKeys = func(source, path string) ([]byte, error) {
		file, err := restored(m, dir, files.ListPath(source, path), parseText)
		if err != nil {
			return nil, err
		}
		return file.content, nil
	}
	set, findings := rules.Parse(sources, o)
	switch {
	case findings.HasErrors():
		return nil, time.Time{}, fmt.Errorf("the rules in %s are invalid: %s", dir, summary(describe(findings, nil)))
	case set.Hash != m.Hash:
		return nil, time.Time{}, fmt.Errorf("the rules in %s were modified: their hash is %s, want %s", dir, set.Hash, m.Hash)
	}
	return set, m.SavedAt, nil
}

// restored parses the copy of the word list, the table or the keys at path.
func restored[T any](m *manifest, dir, path string, parse func(string, io.Reader) (*T, error)) (content *T, err error) {
	at := slices.IndexFunc(m.Lists, func(f keptFile) bool { return f.Path == path })
	if at < 0 {
		return nil, fmt.Errorf("%s: no copy in %s", path, dir)
	}
	_, err = readFile(filepath.Join(dir, filepath.Base(m.Lists[at].File)), maxDict, func(text io.Reader) (err error) {
		content, err = parse(path, text)
		return err
	})
	return content, err
}
