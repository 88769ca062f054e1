package trace

import (
	"bytes"
	"errors"
	"time"
)

var (
	errNotOpen     = errors.New("the file could not be opened")
	errStandsStill = errors.New("the disk stands still; the last lines are lost")
)

// run writes until the log is closed.
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
			l.openAgain()
		case <-l.stop:
			l.write()
			l.dropRest()
			return
		}
	}
}

// write writes what waits, and counts what could not be written.
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

// writeLines writes whole lines, some at a time since a file that moves aside
// at a size takes no more at once. It returns the lines that were not written.
// A disk may fill within a line: its rest goes first when there is room again,
// so that no line is ever cut off.
func (l *Log) writeLines(text []byte) (left []byte, err error) {
	if l.out == nil {
		l.openAgain()
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
		n, err := l.out.Write(text[:lineEnd(text, writeFrom)])
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

// lineEnd is the end of as many whole lines as fit into most bytes, of one at
// least.
func lineEnd(text []byte, most int) int {
	if len(text) <= most {
		return len(text)
	}
	if end := bytes.LastIndexByte(text[:most], '\n'); end >= 0 {
		return end + 1
	}
	return bytes.IndexByte(text, '\n') + 1
}

// dropRest gives up what is left of a line that was written in part.
func (l *Log) dropRest() {
	if len(l.rest) == 0 {
		return
	}
	l.rest = nil
	l.mu.Lock()
	l.dropped++
	l.mu.Unlock()
}

// openAgain opens the file anew. Without it lines are dropped; it is tried again
// with the next that are written.
func (l *Log) openAgain() {
	if l.out != nil {
		l.out.Close()
	}
	l.dropRest() // the other file has no begin of it
	out, err := l.options.Open()
	l.out = out
	if err != nil {
		l.out = nil
		l.mu.Lock()
		l.fault = err
		l.mu.Unlock()
	}
}
