package wordlist

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestKeySetMatchesMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var set keySet
	want := make(map[key]bool)
	for range 20_000 {
		// Keys of few bits repeat, and {0, 0} is among them.
		k := key{random.Uint64N(100), random.Uint64N(200) << 50}
		if set.contains(k) != want[k] {
			t.Fatalf("%v is in the set: %v; want %v", k, !want[k], want[k])
		}
		set.insert(k)
		want[k] = true
	}
	if set.count != len(want) {
		t.Errorf("%d keys; want %d", set.count, len(want))
	}
	got := make(map[key]bool)
	for k := range set.all() {
		got[k] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("all yields %d keys; want %d", len(got), len(want))
	}
}

func TestKeySetWithZeroKeyOnly(t *testing.T) {
	var set keySet
	if set.contains(key{}) || set.contains(key{1, 0}) {
		t.Error("an empty set contains a key")
	}
	set.insert(key{})
	set.insert(key{})
	if !set.contains(key{}) || set.contains(key{1, 0}) || set.count != 1 {
		t.Errorf("the set is %+v; want zero in it, once", set)
	}
}

func TestWordsOfEveryLength(t *testing.T) {
	var set keySet
	var words []string
	for n := 1; n <= 8<<10; n += 1 + n/20 {
		word := strings.Repeat("x", n-1)
		words = append(words, word+"a", word+"b")
		if n < 40 {
			words = append(words, word+"\x01") // as close to the zero key as a word can be
		}
	}
	for i := range 2 * len(words) {
		set.insert(wordKey(words[i%len(words)]))
	}
	if set.count != len(words) {
		t.Errorf("%d words; want %d", set.count, len(words))
	}
	for _, word := range words {
		if !set.contains(wordKey(word)) {
			t.Errorf("%.20q of %d bytes is not in the set", word, len(word))
		}
		if absent := word[:len(word)-1] + "c"; set.contains(wordKey(absent)) {
			t.Errorf("%.20q of %d bytes is in the set", absent, len(absent))
		}
	}
	if set.contains(wordKey("")) {
		t.Error("the empty word is in the set")
	}
}

// TestSimilarLongWordsHaveDistinctKeys checks each half of the keys of similar words,
// because a set takes a key for the word itself.
func TestSimilarLongWordsHaveDistinctKeys(t *testing.T) {
	words := make(map[string]bool)
	for n := maxShort + 1; n < 70; n++ {
		word := []byte(strings.Repeat("a", n))
		words[string(word)] = true
		for i := range word {
			for bit := range 8 {
				word[i] ^= 1 << bit
				words[string(word)] = true
				word[(i+8)%n] ^= 1 << bit // as if two of the four numbers had been swapped
				words[string(word)] = true
				word[(i+8)%n] ^= 1 << bit
				word[i] ^= 1 << bit
			}
		}
	}
	highs, lows := make(map[uint64]bool), make(map[uint64]bool)
	for word := range words {
		k := wordKey(word)
		highs[k.high], lows[k.low] = true, true
		if k.low>>56 != 0xff {
			t.Fatalf("the key of %q could be the key of a short word", word)
		}
	}
	if len(highs) != len(words) || len(lows) != len(words) {
		t.Errorf("%d words have %d and %d distinct halves", len(words), len(highs), len(lows))
	}
}

// TestBlocks compares a set with a search through all blocks, below and above the
// number of prefix lengths that turns it into a tree.
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		name    string
		blocks  []string
		planted bool
	}{
		{"addresses", []string{"10.0.0.1", "2001:db8::1", "0.0.0.0", "::", "255.255.255.255"}, false},
		{"one length", []string{"10.0.0.0/8", "12.0.0.0/8", "11.0.0.1"}, false},
		{"three lengths of both families", []string{"10.0.0.0/24", "2001:db8::/32", "10.0.0.0/16", "2001:db8:1::/32", "::1"}, false},
		{"all of IPv6 without IPv4", []string{"::/0"}, false},
		{"all of IPv4 without IPv6", []string{"0.0.0.0/0"}, false},
		{"large blocks of IPv6", []string{"::/64", "::/80"}, false},
		{"many lengths", []string{"10.0.0.0/24", "2001:db8::/32", "10.0.0.0/16", "2001:db8:1::/48", "10.9.0.0/30", "::/65", "1.2.3.4"}, true},
		{"many lengths, the tree first", []string{"0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/3", "224.0.0.0/4", "0.0.0.0/1"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var set blockSet
			var blocks []netip.Prefix
			for _, text := range c.blocks {
				block := parse(t, text)
				blocks = append(blocks, block)
				set.insert(block)
			}
			if planted := set.tree.Size() > 0; planted != c.planted || planted == (set.lengths != nil) && len(set.lengths) > 0 {
				t.Errorf("in a tree: %v; want %v", planted, c.planted)
			}
			distinct := slices.Clone(blocks)
			slices.SortFunc(distinct, netip.Prefix.Compare)
			if want := len(slices.Compact(distinct)); set.len() != want {
				t.Errorf("%d blocks; want %d", set.len(), want)
			}
			for _, block := range blocks {
				for _, a := range []netip.Addr{block.Addr(), block.Addr().Next(), block.Addr().Prev(), netip.MustParseAddr("10.0.0.200"), netip.MustParseAddr("2001:db8::9")} {
					want := slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) })
					if a.IsValid() && set.contains(a) != want {
						t.Errorf("%v is in the set: %v; want %v", a, !want, want)
					}
				}
			}
		})
	}
}

// parse returns an address or a block, masked.
func parse(t *testing.T, text string) netip.Prefix {
	t.Helper()
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return netip.MustParsePrefix(text).Masked()
}
