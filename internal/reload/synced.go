package reload

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// readWhole reads a file of at most limit bytes.
func readWhole(path string, limit int64) (text []byte, err error) {
	_, err = readFile(path, limit, func(r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	})
	return text, err
}

// writeSynced writes a file and syncs it to disk.
func writeSynced(path string, text []byte) error {
	return writeFrom(path, bytes.NewReader(text))
}

func writeFrom(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the folder belongs to the operator
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder syncs the entries of a folder to disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // as above
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
