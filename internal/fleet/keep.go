package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/atomicfile"
)

// folder is the folder in which an instance keeps the version that it decides by, for a
// start without Redis, and the highest number that it has seen. "" keeps nothing.
type folder string

const (
	highestFile  = "highest"
	versionFile  = "version"
	folderName   = "published"
	fileMode     = 0o600
	folderMode   = 0o700
	temporaryEnd = "~"
)

// folderIn returns the folder below state_dir.
func folderIn(stateDir string) folder {
	if stateDir == "" {
		return ""
	}
	return folder(filepath.Join(stateDir, folderName))
}

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// write replaces a file atomically. It lasts over a power failure once the folder is synced.
func (f folder) write(name string, content []byte) error {
	next := f.path(name + temporaryEnd)
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode) //nolint:gosec // the folder belongs to the operator
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(next, f.path(name))
}

// highest returns the highest number that was saved, 0 for none.
func (f folder) highest() uint64 {
	if f == "" {
		return 0
	}
	text, err := os.ReadFile(f.path(highestFile))
	if err != nil {
		return 0
	}
	return numberOf(strings.TrimSpace(string(text)))
}

// CheckStateDir returns an error if the highest number cannot be kept below a folder, or the
// one that is kept cannot be read: an instance with a key would take older versions then.
func CheckStateDir(stateDir string) error {
	f := folderIn(stateDir)
	text, err := os.ReadFile(f.path(highestFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.saveHighest(0)
	case err != nil:
		return err
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 53)
	if err != nil {
		return fmt.Errorf("%s: not the number of a version; write the number of the version in force into it", f.path(highestFile))
	}
	return f.saveHighest(number)
}

func (f folder) saveHighest(number uint64) error {
	if f == "" {
		return nil
	}
	if err := os.MkdirAll(string(f), folderMode); err != nil {
		return err
	}
	if err := f.write(highestFile, []byte(strconv.FormatUint(number, 10)+"\n")); err != nil {
		return err
	}
	atomicfile.SyncFolder(string(f))
	return nil
}

// save keeps a version. The blobs are on disk first, so that a crash or a power failure leaves
// the former version or this one.
func (f folder) save(value []byte, contents Contents) error {
	if f == "" {
		return nil
	}
	if err := os.MkdirAll(string(f), folderMode); err != nil {
		return err
	}
	for sum, content := range contents {
		if f.has(sum, content) {
			continue
		}
		if err := f.write(sum, content); err != nil {
			return err
		}
	}
	atomicfile.SyncFolder(string(f))
	if err := f.write(versionFile, value); err != nil {
		return err
	}
	atomicfile.SyncFolder(string(f))
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), temporaryEnd); isSum(name) && (contents[name] == nil || name != e.Name()) {
			_ = os.Remove(f.path(e.Name())) // a remaining file does no harm
		}
	}
	return nil
}

// has reports whether the folder has a content without damage.
func (f folder) has(sum string, content []byte) bool {
	info, err := os.Stat(f.path(sum))
	if err != nil || info.Size() != int64(len(content)) {
		return false
	}
	saved, err := os.ReadFile(f.path(sum))
	return err == nil && bytes.Equal(saved, content)
}

// load returns the saved version, and when it was saved. open checks its record.
func (f folder) load(open func(value []byte) (*Manifest, error)) (*Manifest, []byte, Contents, time.Time, error) {
	var none time.Time
	if f == "" {
		return nil, nil, nil, none, fs.ErrNotExist
	}
	value, err := os.ReadFile(f.path(versionFile))
	if err != nil {
		return nil, nil, nil, none, err
	}
	info, err := os.Stat(f.path(versionFile))
	if err != nil {
		return nil, nil, nil, none, err
	}
	m, err := open(value)
	if err != nil {
		return nil, nil, nil, none, err
	}
	contents := make(Contents)
	for _, b := range m.Blobs() {
		content, err := os.ReadFile(f.path(b.Sum)) // a checked hash: no path of the host
		switch {
		case err != nil:
			return nil, nil, nil, none, err
		case BlobOf(content) != b:
			return nil, nil, nil, none, fmt.Errorf("%s was modified", f.path(b.Sum))
		}
		contents[b.Sum] = content
	}
	return m, value, contents, info.ModTime(), nil
}
