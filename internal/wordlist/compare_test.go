package wordlist

import (
	"fmt"
	"net/netip"
	"testing"
)

func setOf(t *testing.T, entries ...string) *Set {
	t.Helper()
	s := new(Set)
	for _, e := range entries {
		if a, err := netip.ParseAddr(e); err == nil {
			s.AddAddress(a)
		} else if p, err := netip.ParsePrefix(e); err == nil {
			s.AddBlock(p.Masked())
		} else {
			s.AddWord(e)
		}
	}
	return s
}

func TestMissingEntries(t *testing.T) {
	many := []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "2001:db8::/32", "fd00::/8"}
	for _, c := range []struct {
		name           string
		before, after  []string
		added, removed int
	}{
		{"nothing", nil, nil, 0, 0},
		{"equal", []string{"ann", "10.0.0.1", "::", "10.0.0.0/8"}, []string{"10.0.0.0/8", "::", "ann", "10.0.0.1"}, 0, 0},
		{"words", []string{"ann", "bob"}, []string{"bob", "cleo", "dora"}, 2, 1},
		{"a new list", nil, []string{"ann", "10.0.0.1", "10.0.0.0/8", "192.0.2.0/24"}, 4, 0},
		{"zero address", []string{"::"}, []string{"::1"}, 1, 1},
		{"small blocks", []string{"192.0.2.0/24", "198.51.100.0/28"}, []string{"192.0.2.0/24", "198.51.100.16/28"}, 1, 1},
		{"whole groups", []string{"2001:db8::/56"}, []string{"192.0.2.0/24", "192.0.3.0/24"}, 2, 1},
		{"a longer block", []string{"192.0.2.0/25"}, []string{"192.0.2.0/24"}, 2, 0},
		{"from lengths to a tree", many[:2], many, 4, 0},
		{"from a tree to lengths", many, many[:2], 0, 4},
		{"another length", []string{"10.0.0.0/8"}, []string{"10.0.0.0/9"}, 1, 1},
	} {
		before, after := setOf(t, c.before...), setOf(t, c.after...)
		if added, removed := after.Missing(before), before.Missing(after); added != c.added || removed != c.removed {
			t.Errorf("%s: %d added, %d removed; want %d, %d", c.name, added, removed, c.added, c.removed)
		}
	}
}

func BenchmarkMissing(b *testing.B) {
	before, after := new(Set), new(Set)
	for i := range 1_000_000 {
		before.AddWord(fmt.Sprintf("user-%d", i))
		after.AddWord(fmt.Sprintf("user-%d", i+10))
	}
	for b.Loop() {
		if n := after.Missing(before); n != 10 {
			b.Fatal(n)
		}
	}
}
