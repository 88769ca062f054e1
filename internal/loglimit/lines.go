package loglimit

import "sync"

// Lines are several kinds of lines, each due independently. The zero value has no
// bound on the number of kinds. It is safe for concurrent use.
type Lines[Kind comparable] struct {
	// Most bounds the number of kinds; kinds beyond it are never due. 0 is no
	// bound, for kinds that are few by nature.
	Most int

	mu    sync.Mutex
	kinds map[Kind]*Line
}

// Due reports whether a line of this kind is due now, and if so the number of lines
// of the kind that were skipped since the last one.
func (l *Lines[Kind]) Due(kind Kind) (skipped int64, due bool) {
	line := l.line(kind)
	if line == nil {
		return 0, false
	}
	return line.Due()
}

// line returns the line of a kind, or nil if there are too many kinds.
func (l *Lines[Kind]) line(kind Kind) *Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.kinds[kind]
	if line != nil || l.Most > 0 && len(l.kinds) >= l.Most {
		return line
	}
	if l.kinds == nil {
		l.kinds = make(map[Kind]*Line)
	}
	line = new(Line)
	l.kinds[kind] = line
	return line
}
