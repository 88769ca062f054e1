package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// standardInput is the path of the standard input.
const standardInput = "-"

// Files reads several traces one after the other. Compressed ones (gzip) are recognized
// by their content. The zero value has no traces.
type Files struct {
	paths []string
	stdin io.Reader
	named bool // whether errors name the file
	path  string
	file  io.Closer // nil for the standard input, and between files
	lines *Reader   // nil between files
}

// OpenFiles returns the traces at these paths. The path "-" is stdin.
func OpenFiles(paths []string, stdin io.Reader) *Files {
	return &Files{paths: paths, stdin: stdin, named: len(paths) > 1}
}

// NewFiles returns a single trace.
func NewFiles(trace io.Reader) *Files { return OpenFiles([]string{standardInput}, trace) }

// Next returns the next line that is not blank, or io.EOF after the last trace. Other
// errors start with the place of the line.
func (f *Files) Next() (*Line, error) {
	for {
		if f.lines == nil {
			if len(f.paths) == 0 {
				return nil, io.EOF
			}
			if err := f.open(); err != nil {
				return nil, err
			}
		}
		l, err := f.lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			f.lines = nil
			if err := f.Close(); err != nil {
				return nil, err
			}
		case err != nil && f.named:
			return nil, fmt.Errorf("%s: %w", f.path, err)
		default:
			return l, err
		}
	}
}

// Place is a line of a trace.
type Place struct {
	File string // its path if there are several traces, else ""
	Line int    // from 1
}

// String returns the place for messages: `line 3`, or `a.jsonl: line 3`.
func (p Place) String() string {
	if p.File == "" {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("%s: line %d", p.File, p.Line)
}

// Place returns the place of the line that Next returned.
func (f *Files) Place() Place {
	var p Place
	if f.named {
		p.File = f.path
	}
	if f.lines != nil {
		p.Line = f.lines.Number()
	}
	return p
}

// Close closes the trace that is being read.
func (f *Files) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// open opens the next trace.
func (f *Files) open() error {
	f.path, f.paths = f.paths[0], f.paths[1:]
	from := f.stdin
	if f.path != standardInput {
		opened, err := os.Open(f.path)
		if err != nil {
			return fmt.Errorf("cannot read the trace: %w", err)
		}
		from, f.file = opened, opened
	}
	plain, err := decompressed(from)
	if err != nil {
		return fmt.Errorf("cannot read the trace: %s: %w", f.path, err)
	}
	f.lines = NewReader(plain)
	return nil
}

// gzipMagic are the first bytes of a gzip file.
var gzipMagic = []byte{0x1f, 0x8b}

// decompressed returns the contents of a reader, which may be compressed.
func decompressed(from io.Reader) (io.Reader, error) {
	b := bufio.NewReader(from)
	if begin, _ := b.Peek(len(gzipMagic)); !bytes.Equal(begin, gzipMagic) {
		return b, nil // an error of Peek returns with the next read
	}
	return gzip.NewReader(b)
}
