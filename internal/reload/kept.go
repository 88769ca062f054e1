package reload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// kept is a folder with the rule set that was last in force: copies of its rule
// files and word lists, for a start beside files that are not fit to be. Each
// set is a folder of its own below, and the file `current` names the one that
// is whole: it is replaced in one step, so that a crash leaves the old set or
// the new one.
type kept struct{ dir string }

const (
	currentFile  = "current"
	manifestFile = "manifest.json"
	setPrefix    = "rules-"
	// maxManifest bounds what is read of a manifest and of `current`, in bytes.
	maxManifest = 16 << 20
)

// manifest says what a folder of a set holds.
type manifest struct {
	// Hash is that of the set. It covers the content of all its files, so a set
	// that was tampered with or cut off is found out.
	Hash    string    `json:"hash"`
	SavedAt time.Time `json:"saved_at"`
	// Paths and DictRoot are where the set was read from: a service that is
	// pointed elsewhere has no use for it.
	Paths    []string   `json:"paths"`
	DictRoot string     `json:"dict_root"`
	Sources  []keptFile `json:"sources"`
	Lists    []keptFile `json:"lists"`
}

// keptFile is the copy of a file: where it was, and its name in the set's
// folder. Size and time are those of a word list when it was copied.
type keptFile struct {
	Path    string    `json:"path"`
	File    string    `json:"file"`
	Size    int64     `json:"size,omitempty"`
	ModTime time.Time `json:"mod_time,omitzero"`
}

// errMoved tells that a word list has changed since it was read.
var errMoved = errors.New("a word list changed meanwhile")

// save keeps a set that was read by r, unless it is kept already.
func (k kept) save(set *rules.Set, files Files, r *reader, now time.Time) error {
	before, beforeDir, err := k.manifest()
	if err == nil && before.Hash == set.Hash && before.isOf(files) && before.isWhole(beforeDir, set, r) {
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
		err = errors.Join(err, writeWhole(filepath.Join(dir, f.File), s.Text))
		m.Sources = append(m.Sources, f)
	}
	for path := range r.lists {
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
	k.removeBut(filepath.Base(dir))
	return nil
}

// finish writes what makes a folder the set that is kept.
func (k kept) finish(dir string, m *manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(dir, manifestFile), text); err != nil {
		return err
	}
	if err := syncFolder(dir); err != nil {
		return err
	}
	next := filepath.Join(k.dir, currentFile+"~")
	if err := writeWhole(next, []byte(filepath.Base(dir)+"\n")); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(k.dir, currentFile)); err != nil {
		return err
	}
	return syncFolder(k.dir)
}

// copyList copies the word list at f.Path, as it was seen, into dir. One that
// is kept already is linked: lists may be large.
func (f *keptFile) copyList(seen stamp, dir string, before *manifest, beforeDir string) error {
	if seen.info == nil {
		return errMoved
	}
	f.Size, f.ModTime = seen.info.Size(), seen.info.ModTime()
	to := filepath.Join(dir, f.File)
	if before != nil {
		at := slices.IndexFunc(before.Lists, func(o keptFile) bool {
			return o.Path == f.Path && o.Size == f.Size && o.ModTime.Equal(f.ModTime)
		})
		// Its time and size may be those of another content: packages give all
		// their files one time.
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
	if !seen.same(look(f.Path)) {
		return fmt.Errorf("%s: %w", f.Path, errMoved)
	}
	return nil
}

// removeBut removes the folders of all sets but one. What cannot be removed
// does no harm.
func (k kept) removeBut(name string) {
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

// isOf tells whether the set was read from these files.
func (m *manifest) isOf(files Files) bool {
	return slices.Equal(m.Paths, files.Paths) && m.DictRoot == files.DictRoot
}

// isWhole tells whether the folder still holds the set that r has read. Of word
// lists the size has to do: they may be large.
func (m *manifest) isWhole(dir string, set *rules.Set, r *reader) bool {
	if len(m.Sources) != len(set.Sources) || len(m.Lists) != len(r.lists) {
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
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size || r.lists[f.Path] == nil {
			return false
		}
	}
	return true
}

// isSameContent tells whether two files can be read and hold the same.
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

// manifest reads what is kept, and tells in which folder.
func (k kept) manifest() (*manifest, string, error) {
	name, err := readWhole(filepath.Join(k.dir, currentFile), maxManifest)
	if err != nil {
		return nil, "", err
	}
	folder := strings.TrimSpace(string(name))
	if !strings.HasPrefix(folder, setPrefix) || folder != filepath.Base(folder) {
		return nil, "", fmt.Errorf("%s: it names no folder of ours", filepath.Join(k.dir, currentFile))
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

// restore reads the set that is kept. It must have been read from the same
// files, and be what it was to the last byte.
func (k kept) restore(files Files) (set *rules.Set, savedAt time.Time, err error) {
	m, dir, err := k.manifest()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !m.isOf(files) {
		return nil, time.Time{}, fmt.Errorf("the rules in %s were read from %q, not from %q", dir, m.Paths, files.Paths)
	}
	sources := make([]rules.Source, len(m.Sources))
	for i, f := range m.Sources {
		sources[i].Name = f.Path
		if sources[i].Text, err = readWhole(filepath.Join(dir, filepath.Base(f.File)), maxRuleFile); err != nil {
			return nil, time.Time{}, err
		}
	}
	o := files.Rules
	o.OpenDict = func(source, path string) (*rules.Dict, error) {
		path = files.dictPath(source, path)
		at := slices.IndexFunc(m.Lists, func(f keptFile) bool { return f.Path == path })
		if at < 0 {
			return nil, fmt.Errorf("%s: it is not kept in %s", path, dir)
		}
		var list *rules.Dict
		_, err := readFile(filepath.Join(dir, filepath.Base(m.Lists[at].File)), maxDict, func(text io.Reader) (err error) {
			list, err = rules.ParseDict(path, text)
			return err
		})
		return list, err
	}
	set, findings := rules.Parse(sources, o)
	switch {
	case findings.HasErrors():
		return nil, time.Time{}, fmt.Errorf("the rules in %s are faulty: %s", dir, summary(describe(findings, nil)))
	case set.Hash != m.Hash:
		return nil, time.Time{}, fmt.Errorf("the rules in %s are not what was kept: their hash is %s, not %s", dir, set.Hash, m.Hash)
	}
	return set, m.SavedAt, nil
}

// readWhole reads a file of at most limit bytes.
func readWhole(path string, limit int64) (text []byte, err error) {
	_, err = readFile(path, limit, func(r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	})
	return text, err
}

// writeWhole writes a file that is on the disk when it returns.
func writeWhole(path string, text []byte) error {
	return writeFrom(path, bytes.NewReader(text))
}

func writeFrom(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // it is in the operator's own folder
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder has the names in a folder on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // as above
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
