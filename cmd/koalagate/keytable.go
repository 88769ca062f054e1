package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/apikey"
	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/rules"
)

// change changes the text of a table of keys.
type change func(*apikey.Table) ([]byte, error)

// on returns the change of a text that is named so in errors.
func (f change) on(name string) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		t, err := apikey.Parse(name, text)
		if err != nil {
			return nil, err
		}
		return f(t)
	}
}

// alone returns an error if a flag is set that has no effect without published rules.
func alone(c *cobra.Command, isPublished bool, name string, others []string) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if !isPublished && err == nil && !slices.Contains(others, f.Name) {
			err = fmt.Errorf("--%s has no effect without --%s", f.Name, name)
		}
	})
	return err
}

// addKey adds the row of a key to the table, and with --publish to the published one.
func (p *program) addKey(ctx context.Context, k *keyFlags, hash string, cells []apikey.Cell) error {
	add := change(func(t *apikey.Table) ([]byte, error) { return t.Add(hash, cells, time.Now().In(k.zone)) })
	inFile := true
	if k.publish {
		_, err := os.Stat(k.table)
		inFile = !errors.Is(err, fs.ErrNotExist)
	}
	if inFile {
		if err := apikey.Edit(ctx, k.table, add.on(k.table)); err != nil {
			return failure{err}
		}
	}
	if !k.publish {
		return nil
	}
	err := p.publishKeys(ctx, k, add, "key "+shortID(hash)+" added")
	if err != nil && inFile {
		if kept := p.takeBack(ctx, k, hash, false); kept != nil {
			err = fmt.Errorf("%w; %w", err, kept)
		}
	}
	return err
}

// takeBack removes the row of a key that nobody has, and with inForce from the published table,
// too.
func (p *program) takeBack(ctx context.Context, k *keyFlags, hash string, inForce bool) error {
	ctx = context.WithoutCancel(ctx)
	remove := change(func(t *apikey.Table) ([]byte, error) {
		text, _, err := t.Remove(hash)
		return text, err
	})
	if inForce {
		k.of.note, k.of.expect = "", -1
		if err := p.publishKeys(ctx, k, remove, "key "+shortID(hash)+" taken back"); err != nil {
			return fmt.Errorf("the published table keeps the row %s of a key that nobody has: %w", shortID(hash), err)
		}
	}
	err := apikey.Edit(ctx, k.table, remove.on(k.table))
	if err == nil || k.publish && errors.Is(err, fs.ErrNotExist) { // only the published table has the keys
		return nil
	}
	return failed("%s keeps the row %s of a key that nobody has: %w", k.table, shortID(hash), err)
}

// revokeKey removes the row of a key, with --publish from the published table first.
func (p *program) revokeKey(ctx context.Context, k *keyFlags, id string) error {
	var removed apikey.Row
	remove := change(func(t *apikey.Table) (text []byte, err error) {
		text, removed, err = t.Remove(id)
		return text, err
	})
	if k.publish {
		if err := p.publishKeys(ctx, k, remove, "key "+shortID(id)+" revoked"); err != nil {
			return err
		}
		id = removed.ID()
	}
	err := apikey.Edit(ctx, k.table, remove.on(k.table))
	var unknown *apikey.UnknownError
	if k.publish && (errors.Is(err, fs.ErrNotExist) || errors.As(err, &unknown)) {
		err = nil // the published table has the keys
	}
	if err != nil {
		return failure{err}
	}
	display.Printf(p.stdout, "revoked %s\n", removed.ID())
	return nil
}

// shortID returns the digits of a hash that name a key.
func shortID(hash string) string { return hash[:min(8, len(hash))] }

// readKeys reads the table of the file, or with --published of the version in force.
func (p *program) readKeys(ctx context.Context, k *keyFlags) (*apikey.Table, error) {
	var text []byte
	var err error
	if k.published {
		var now *keyVersion
		if now, err = p.keysInForce(ctx, k); err != nil {
			return nil, err
		}
		text, err = k.of.download(ctx, p.environ, now.number, now.lists[0].Blob)
	} else {
		text, err = apikey.ReadFile(k.table)
	}
	if err != nil {
		return nil, failure{err}
	}
	t, err := apikey.Parse(k.table, text)
	if err != nil {
		return nil, failure{err}
	}
	return t, nil
}

// keyVersion is the version in force with the table of the keys.
type keyVersion struct {
	state    adminapi.Fleet
	number   uint64
	manifest *fleet.Manifest
	lists    []fleet.ListFile // the declarations of the table
}

// keysInForce finds the table in the version in force.
func (p *program) keysInForce(ctx context.Context, k *keyFlags) (*keyVersion, error) {
	v := new(keyVersion)
	if err := k.of.call(ctx, p.environ, http.MethodGet, "fleet", nil, &v.state); err != nil {
		return nil, err
	}
	if v.number = v.state.InForce; v.number == 0 {
		return nil, failed("no version is in force; publish the rules first: koalagate publish PATH…")
	}
	var detail adminapi.VersionDetail
	if err := k.of.call(ctx, p.environ, http.MethodGet, fmt.Sprintf("versions/%d", v.number), nil, &detail); err != nil {
		return nil, err
	}
	switch {
	case detail.Content == nil:
		return nil, failed("the instance did not send the content of version %d", v.number)
	case detail.Purpose != "" && detail.Purpose != fleet.InForce:
		return nil, failed("version %d was never in force: its signature is for %q", v.number, detail.Purpose)
	}
	v.manifest = detail.Content
	v.lists = tablesAt(v.manifest.Lists, filepath.ToSlash(filepath.Clean(k.table)))
	if len(v.lists) == 0 {
		return nil, failed("version %d has no table %s; name it as [tables] does", v.number, k.table)
	}
	if slices.ContainsFunc(v.lists, func(l fleet.ListFile) bool { return placeOf(l) != placeOf(v.lists[0]) }) {
		return nil, failed("version %d has several tables %s, such as %s and %s; state more of the path", v.number, k.table, placeOf(v.lists[0]), placeOf(v.lists[len(v.lists)-1]))
	}
	return v, nil
}

// placeOf returns the path of a list as the publisher found it.
func placeOf(l fleet.ListFile) string {
	if path.IsAbs(l.Path) {
		return path.Clean(l.Path)
	}
	return path.Join(path.Dir(l.Source), l.Path)
}

// tablesAt returns the lists with this path. If there is none, it returns the lists of which one
// path ends with the other.
func tablesAt(lists []fleet.ListFile, at string) []fleet.ListFile {
	var exact, near []fleet.ListFile
	for _, l := range lists {
		switch place := placeOf(l); {
		case place == at:
			exact = append(exact, l)
		case path.Clean(l.Path) == at, strings.HasSuffix("/"+place, "/"+at), strings.HasSuffix("/"+at, "/"+place):
			near = append(near, l)
		}
	}
	if exact != nil {
		return exact
	}
	return near
}

// download reads a content of a version. It has more time than --timeout: contents may be large.
func (i *instance) download(ctx context.Context, environ []string, number uint64, b fleet.Blob) ([]byte, error) {
	c, err := i.client(environ)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, adminapi.UploadTime+i.timeout)
	defer cancel()
	content, err := c.Download(ctx, fmt.Sprintf("versions/%d/contents/%s", number, b.Sum))
	if err == nil && fleet.BlobOf(content) != b {
		err = fmt.Errorf("the instance sent another content than version %d has", number)
	}
	if err != nil {
		return nil, failure{err}
	}
	return content, nil
}

const (
	// overtakenTime is the time for which a change of keys that others overtake is repeated.
	overtakenTime = 5 * time.Minute
	// overtakenPause is the longest pause before it is.
	overtakenPause = 300 * time.Millisecond
)

// publishKeys publishes the version in force with a change of the table of the keys, and waits
// until it is in force. Without --expect it begins anew on the new version whenever another is
// published meanwhile.
func (p *program) publishKeys(ctx context.Context, k *keyFlags, f change, note string) error {
	if k.of.note == "" {
		k.of.note = note
	}
	quiet := *p
	quiet.stdout = p.stderr // the standard output is for the result
	until := time.Now().Add(overtakenTime)
	for {
		err := quiet.publishKeysOnce(ctx, k, f)
		var overtaken conflict
		if err == nil || !errors.As(err, &overtaken) || k.of.expect >= 0 || time.Now().After(until) {
			return err
		}
		if !delay.Wait(ctx, time.Duration(1+rand.Int64N(int64(overtakenPause)))) { //nolint:gosec // a pause is no secret
			return failure{ctx.Err()}
		}
	}
}

func (p *program) publishKeysOnce(ctx context.Context, k *keyFlags, f change) error {
	now, err := p.keysInForce(ctx, k)
	if err != nil {
		return err
	}
	if err := p.checkExpected(ctx, k.of, &now.state); err != nil {
		return err
	}
	contents := make(fleet.Contents)
	for _, b := range now.manifest.Blobs() {
		if contents[b.Sum], err = k.of.download(ctx, p.environ, now.number, b); err != nil {
			return err
		}
	}
	text, err := f.on(placeOf(now.lists[0]))(contents[now.lists[0].Sum])
	if err != nil {
		return failure{err}
	}
	blob := fleet.BlobOf(text)
	contents[blob.Sum] = text
	next := now.manifest.Replace(now.lists, blob)
	set, list, err := fleet.Parse(ctx, next, contents, rules.Options{Now: time.Now, Timezone: k.timezone, AllowEmpty: true})
	if err != nil {
		findings.WriteText(p.stderr, list)
		return failed("version %d with the change has errors; nothing was published: %w", now.number, err)
	}
	next.Hash, next.Rules = set.Hash, len(set.Rules)
	if err := k.of.uploadMissing(ctx, p.environ, next, contents); err != nil {
		return err
	}
	return p.propose(ctx, k.of, next, &now.state)
}

// writeRows prints rows in columns. It reads them twice, so that a table with millions of keys
// takes no more memory.
func writeRows(w io.Writer, columns []string, rows iter.Seq[apikey.Row]) error {
	widths := make([]int, len(columns))
	for i, name := range columns {
		widths[i] = utf8.RuneCountInString(name)
	}
	for row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cellText(cell)))
		}
	}
	var line strings.Builder
	write := func(cells []string) error {
		line.Reset()
		for i, cell := range cells {
			text := cellText(cell)
			line.WriteString(text)
			if i < len(cells)-1 {
				line.WriteString(strings.Repeat(" ", 2+widths[i]-utf8.RuneCountInString(text)))
			}
		}
		_, err := io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n")
		return err
	}
	if err := write(columns); err != nil {
		return err
	}
	for row := range rows {
		if err := write(row); err != nil {
			return err
		}
	}
	return nil
}

// cellText returns a cell as it is printed; an empty one is a hyphen, so that columns can be
// counted.
func cellText(cell string) string {
	if cell == "" {
		return "-"
	}
	return display.Text(cell)
}
