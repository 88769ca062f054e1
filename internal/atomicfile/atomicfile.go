// Package atomicfile replaces files as a whole: a reader sees either the old or the new content.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace replaces the content of a file atomically and durably: a reader such as the
// service sees either the old or the new content, and the new one is on disk when it
// returns. Owner, group and mode stay the same, and a symbolic link stays a link.
func Replace(path string, content []byte) (err error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	folder := filepath.Dir(target)
	// The suffix is not .conf, so that no reader of the folder takes the temporary
	// file for a rule file.
	next, err := os.CreateTemp(folder, "."+filepath.Base(target)+".*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next.Name()))
		}
	}()
	if err := errors.Join(keepOwner(next, info), next.Chmod(info.Mode().Perm())); err != nil {
		return errors.Join(err, next.Close())
	}
	return finish(next, content, target)
}

// Write writes a file atomically and durably, as Replace does, whether or not it exists. It makes
// its folder. Only the owner of the process may read a file and a folder that Write makes.
func Write(path string, content []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next.Name()))
		}
	}()
	return finish(next, content, path)
}

// finish writes and closes a temporary file, and gives it its name.
func finish(next *os.File, content []byte, path string) error {
	_, err := next.Write(content)
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return err
	}
	SyncFolder(filepath.Dir(path))
	return nil
}

// SyncFolder writes the entries of a folder to disk, so that renamed files keep their new names
// over a power failure. Not all file systems can: a file has been replaced in any case, so that an
// error must not say otherwise.
func SyncFolder(path string) {
	folder, err := os.Open(path) //nolint:gosec // of a file that the operator names
	if err != nil {
		return
	}
	_ = folder.Sync() // see above
	_ = folder.Close()
}
