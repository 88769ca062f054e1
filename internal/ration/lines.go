package ration

import "sync"

// Lines are several kinds of lines, each due by itself. The zero value tells
// apart any number of kinds. It is safe for concurrent use.
type Lines[Kind comparable] struct {
	// Most bounds the kinds that are told apart; those that come later are never
	// due. 0 is no bound, for kinds of which there are few.
	Most int

	mu    sync.Mutex
	kinds map[Kind]*Line
}

// Due tells whether a line of a kind is to be told now, and then how often it
// was not since the last time.
func (l *Lines[Kind]) Due(kind Kind) (unsaid int64, due bool) {
	line := l.line(kind)
	if line == nil {
		return 0, false
	}
	return line.Due()
}

// line is that of a kind, nil where there are too many.
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
