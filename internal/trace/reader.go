package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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
