package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Tail reads the end of a log that may be written and rotated meanwhile: whole lines, the
// oldest first. The caller must close it.
type Tail struct {
	io.Reader
	// Whole reports that the log has no earlier lines.
	Whole bool
	files []*os.File // the latest first
}

// OpenTail opens the end of the log at path, up to most bytes of it. Bytes that the file at
// path does not have come from the files to which rotation renamed earlier ones: NAME-*EXT
// in the same folder. The error reports a file that cannot be read or is none, such as a
// pipe.
func OpenTail(path string, most int64) (*Tail, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	t := &Tail{Whole: true}
	var parts []io.Reader
	for i, name := range append([]string{path}, rotated(path)...) {
		if most <= 0 {
			t.Whole = false
			break
		}
		part, used, err := t.open(name, most)
		switch {
		case i > 0 && errors.Is(err, os.ErrNotExist): // rotation has removed the file
			continue
		case err != nil:
			return nil, errors.Join(err, t.Close())
		}
		parts = append(parts, part)
		most -= used
	}
	slices.Reverse(parts)
	t.Reader = io.MultiReader(parts...)
	return t, nil
}

// rotated returns the files to which a log was renamed, the latest first: their names
// contain the time.
func rotated(path string) []string {
	ext := filepath.Ext(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil // then the file at path must do
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), strings.TrimSuffix(filepath.Base(path), ext)+"-") && filepath.Ext(e.Name()) == ext && e.Type().IsRegular() {
			names = append(names, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

// open opens the end of one file, and returns how much of most it uses. A file that was
// renamed since it was opened is not read twice.
func (t *Tail) open(path string, most int64) (part io.Reader, used int64, err error) {
	f, err := os.Open(path) //nolint:gosec // a setting names it
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	for _, known := range t.files {
		if other, err := known.Stat(); err == nil && os.SameFile(info, other) {
			return strings.NewReader(""), 0, f.Close()
		}
	}
	t.files = append(t.files, f)
	end, err := lastLineEnd(f, info.Size())
	if err != nil {
		return nil, 0, err
	}
	begin := max(0, end-most)
	in := bufio.NewReader(io.NewSectionReader(f, begin, end-begin))
	if begin > 0 {
		t.Whole = false
		if _, err := in.ReadBytes('\n'); err != nil { // the rest of a line of MaxLine bytes at most
			return nil, 0, err
		}
	}
	return in, end - begin, nil
}

// lastLineEnd returns the offset behind the last newline of a file of this size; 0 if it has
// none.
func lastLineEnd(f io.ReaderAt, size int64) (int64, error) {
	last := make([]byte, min(size, MaxLine))
	if _, err := f.ReadAt(last, size-int64(len(last))); err != nil {
		return 0, err
	}
	at := bytes.LastIndexByte(last, '\n')
	switch {
	case at < 0 && size > MaxLine:
		return 0, fmt.Errorf("its last line is longer than %d bytes, so that it is no decision log", MaxLine)
	case at < 0:
		return 0, nil
	}
	return size - int64(len(last)) + int64(at) + 1, nil
}

// Close closes the files.
func (t *Tail) Close() error {
	var all []error
	for _, f := range t.files {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}
