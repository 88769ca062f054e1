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

// MaxLine is the maximum length of a line in bytes, including its newline.
const MaxLine = 1 << 20

// Reader parses a trace of any length line by line.
type Reader struct {
	in     *bufio.Reader
	number int
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, MaxLine)}
}

// Number returns the number of the line that Next returned, starting at 1.
func (r *Reader) Number() int { return r.number }

// Next returns the next line that is not blank, or io.EOF at the end. Other
// errors start with the number of the line. A byte order mark is skipped.
func (r *Reader) Next() (*Line, error) {
	for {
		text, err := r.in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil, io.EOF
		}
		r.number++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, r.fault(fmt.Errorf("longer than %d bytes; want one call per line", MaxLine))
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, r.fault(errors.New("the compressed trace ends early; want the whole file"))
		case err != nil && !errors.Is(err, io.EOF):
			return nil, r.fault(err)
		}
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		l, err := parseLine(text)
		if err != nil {
			return nil, r.fault(err)
		}
		return l, nil
	}
}

func (r *Reader) fault(err error) error { return fmt.Errorf("line %d: %w", r.number, err) }

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
