package service

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

// longest agrees with a look at every connection, whatever was heard, opened and closed.
func TestLongestSilence(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := silence{which: ofPeer}
	if s.longest() != nil {
		t.Fatal("a silence without connections has one")
	}
	clock := int64(0)
	for range 20_000 {
		clock++
		switch c := random.IntN(10); {
		case c < 3 && len(s.list) < 100:
			one := &limitedConn{}
			one.heard.Store(clock)
			heap.Push(&s, one)
		case len(s.list) == 0:
		case c < 7:
			s.list[random.IntN(len(s.list))].heard.Store(clock)
		default:
			want := slices.MinFunc(s.list, func(a, b *limitedConn) int { return int(a.heard.Load() - b.heard.Load()) })
			got := s.longest()
			if got != want {
				t.Fatalf("got the connection heard at %d, want %d", got.heard.Load(), want.heard.Load())
			}
			if c == 9 {
				heap.Remove(&s, got.place[ofPeer])
				if got.place[ofPeer] != -1 {
					t.Fatalf("a connection that has left has place %d", got.place[ofPeer])
				}
			}
		}
	}
}

// A full listener finds room in a few steps, and not by a look at each connection.
func BenchmarkLongestSilence(b *testing.B) {
	s := silence{}
	for i := range 8192 {
		one := &limitedConn{}
		one.heard.Store(int64(i))
		heap.Push(&s, one)
	}
	clock := int64(8192)
	for b.Loop() {
		c := s.longest()
		clock++
		heap.Remove(&s, c.place[ofAll])
		c.heard.Store(clock)
		heap.Push(&s, c)
	}
}
