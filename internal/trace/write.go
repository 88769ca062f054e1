package trace

import (
	"bytes"
	"errors"
	"time"
)

var (
	errNotOpen = errors.New("the file could not be opened")
	errStalled = errors.New("the disk is stalled; the last lines are lost")
)

// run writes pending lines until the log is closed.
func (l *Log) run() {
	defer close(l.written)
	timer := time.NewTicker(flushInterval)
	defer timer.Stop()
	for {
		select {
		case <-l.full:
			l.write()
		case <-timer.C:
			l.write()
		case <-l.reopen:
			l.write()
			l.openOutput()
		case <-l.stop:
			l.write()
			l.dropRest()
			return
		}
	}
}

// write writes the pending lines and counts the lines that it could not write.
func (l *Log) write() {
	l.mu.Lock()
	text, lines := l.pending, l.lines
	l.pending, l.lines, l.spare, l.writing = l.spare[:0], 0, text, lines
	l.mu.Unlock()
	if lines == 0 && len(l.rest) == 0 {
		return
	}
	left, err := l.writeLines(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = 0
	if err != nil {
		l.dropped += int64(bytes.Count(left, newline))
		l.fault = err
	}
}

var newline = []byte{'\n'}

// writeLines writes whole lines and returns the lines that it did not write. It
// limits the size of a write, because a file that rotates by size does not
// accept more at once. If the disk becomes full within a line, the rest of that
// line is written first once there is space again, so that no line is truncated.
func (l *Log) writeLines(text []byte) (left []byte, err error) {
	if l.out == nil {
		l.openOutput()
	}
	if l.out == nil {
		return text, errNotOpen
	}
	if len(l.rest) > 0 {
		n, err := l.out.Write(l.rest)
		l.rest = l.rest[n:]
		if err != nil {
			return text, err
		}
	}
	for len(text) > 0 {
		n, err := l.out.Write(text[:lineEnd(text, flushSize)])
		if err != nil {
			if n > 0 && text[n-1] != '\n' {
				end := n + bytes.IndexByte(text[n:], '\n') + 1
				l.rest = append(l.rest[:0], text[n:end]...)
				n = end
			}
			return text[n:], err
		}
		text = text[n:]
	}
	return nil, nil
}

// lineEnd returns the length of as many whole lines as fit into size bytes, but
// of one line at least.
func lineEnd(text []byte, size int) int {
	if len(text) <= size {
		return len(text)
	}
	if end := bytes.LastIndexByte(text[:size], '\n'); end >= 0 {
		return end + 1
	}
	return bytes.IndexByte(text, '\n') + 1
}

// dropRest drops the rest of a line that was written partly.
func (l *Log) dropRest() {
	if len(l.rest) == 0 {
		return
	}
	l.rest = nil
	l.mu.Lock()
	l.dropped++
	l.mu.Unlock()
}

// openOutput closes the output and opens it again. If that fails, lines are
// dropped, and the next write tries again.
func (l *Log) openOutput() {
	if l.out != nil {
		l.out.Close()
	}
	l.dropRest() // the new file does not contain its start
	out, err := l.options.Open()
	l.out = out
	if err != nil {
		l.out = nil
		l.mu.Lock()
		l.fault = err
		l.mu.Unlock()
	}
}
