package service

import "container/heap"

// The two silences that a connection belongs to.
const (
	ofAll = iota
	ofPeer
)

// silence is a heap of connections, the one that has been silent longest first, as far as
// noted. Bytes that arrive change no heap: longest notes them when it meets the connection,
// so that reading costs nothing, and a full listener does not look at each connection.
type silence struct {
	list  []*limitedConn
	which int
}

// longest returns the connection that has been silent longest, nil if there is none.
func (s *silence) longest() *limitedConn {
	for range s.list {
		c := s.list[0]
		heard := c.heard.Load()
		if heard == c.noted[s.which] {
			return c
		}
		c.noted[s.which] = heard
		heap.Fix(s, 0)
	}
	if len(s.list) == 0 {
		return nil
	}
	return s.list[0] // all have sent something meanwhile
}

func (s *silence) Len() int { return len(s.list) }

func (s *silence) Less(i, j int) bool {
	return s.list[i].noted[s.which] < s.list[j].noted[s.which]
}

func (s *silence) Swap(i, j int) {
	s.list[i], s.list[j] = s.list[j], s.list[i]
	s.list[i].place[s.which], s.list[j].place[s.which] = i, j
}

// Push is for package heap.
func (s *silence) Push(x any) {
	c := x.(*limitedConn)
	c.noted[s.which], c.place[s.which] = c.heard.Load(), len(s.list)
	s.list = append(s.list, c)
}

// Pop is for package heap.
func (s *silence) Pop() any {
	last := len(s.list) - 1
	c := s.list[last]
	s.list[last] = nil
	s.list = s.list[:last]
	c.place[s.which] = -1
	return c
}
