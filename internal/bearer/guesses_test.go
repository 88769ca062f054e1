package bearer

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// guesser makes guesses by a clock that the test sets.
type guesser struct {
	*Guesses
	at time.Time
}

func newGuesser() *guesser {
	g := &guesser{Guesses: new(Guesses), at: time.Unix(1_800_000_000, 0)}
	g.now = func() time.Time { return g.at }
	return g
}

// try sends a token from an address; the right one is "right".
func (g *guesser) try(address, token string) (isRight bool, wait time.Duration) {
	index, wait := g.Try(&http.Request{RemoteAddr: address}, token, "other", "right")
	return index == 1, wait
}

// After five wrong tokens a peer waits until the minute is over, with the right token, too.
// Other peers do not wait.
func TestGuessersWait(t *testing.T) {
	g := newGuesser()
	for i := range maxGuesses {
		if right, wait := g.try("192.0.2.1:1", fmt.Sprint("wrong", i)); right || wait != 0 {
			t.Fatalf("guess %d: %v, %v; want it compared", i, right, wait)
		}
		g.at = g.at.Add(time.Second)
	}
	for _, token := range []string{"wrong9", "wrong1", "right", "other"} {
		if right, wait := g.try("192.0.2.1:2", token); right || wait != 55*time.Second {
			t.Errorf("%s: %v, %v; want a wait of 55s", token, right, wait)
		}
	}
	if index, wait := g.Try(&http.Request{RemoteAddr: "192.0.2.1:1"}, "", "", "right"); index != -1 || wait != 0 {
		t.Errorf("no token: %d, %v; want neither a match nor a wait", index, wait)
	}
	if right, wait := g.try("192.0.2.2:1", "right"); !right || wait != 0 {
		t.Errorf("another peer: %v, %v", right, wait)
	}
	g.at = g.at.Add(55 * time.Second)
	if right, wait := g.try("192.0.2.1:1", "right"); !right || wait != 0 {
		t.Errorf("after the minute: %v, %v", right, wait)
	}
	if right, wait := g.try("192.0.2.1:1", "wrong"); right || wait != 0 {
		t.Errorf("a guess after the minute: %v, %v", right, wait)
	}
}

// A program that repeats an old token is refused, and keeps nobody out of its address.
func TestRepeatedTokenKeepsNobodyOut(t *testing.T) {
	g := newGuesser()
	for i := range 3 * maxGuesses {
		right, wait := g.try("127.0.0.1:1", "old")
		if right || (wait > 0) != (i >= maxGuesses) {
			t.Errorf("time %d of the old token: %v, %v", i+1, right, wait)
		}
		if right, wait := g.try("127.0.0.1:2", "right"); !right || wait != 0 {
			t.Errorf("the right token after %d of the old one: %v, %v", i+1, right, wait)
		}
	}
}

// Many peers neither fill the memory nor slow each other. The addresses of one IPv6 network
// are one peer, and so are those of a Unix socket.
func TestGuessersAreBounded(t *testing.T) {
	g := newGuesser()
	for i := range 5 * maxPeers {
		for j := range maxGuesses {
			g.try(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), strconv.Itoa(j))
		}
	}
	if n := len(g.recent) + len(g.older); n > 2*maxPeers {
		t.Errorf("%d peers are remembered; want at most %d", n, 2*maxPeers)
	}
	if right, wait := g.try("192.0.2.7:1", "right"); !right || wait != 0 {
		t.Errorf("a peer among many guessers: %v, %v", right, wait)
	}
	if _, wait := g.try("10.0.39.255:1", "right"); wait == 0 {
		t.Error("the last guesser does not wait")
	}
	for name, format := range map[string]string{"an IPv6 network": "[2001:db8::%d]:1", "a Unix socket": "@%d"} {
		g := newGuesser()
		for i := range maxGuesses {
			g.try(fmt.Sprintf(format, i), fmt.Sprint("wrong", i))
		}
		if _, wait := g.try(fmt.Sprintf(format, 77), "right"); wait == 0 {
			t.Errorf("another address of %s does not wait", name)
		}
	}
}

// A right token costs no memory, also while others guess.
func TestRightTokensDoNotAllocate(t *testing.T) {
	g := newGuesser()
	r := &http.Request{RemoteAddr: "192.0.2.1:1"}
	check := func(when string) {
		if n := testing.AllocsPerRun(100, func() {
			if index, _ := g.Try(r, "right", "other", "right"); index != 1 {
				t.Fatal("the right token is refused")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations; want none", when, n)
		}
	}
	check("without guesses")
	g.try("192.0.2.1:2", "wrong")
	check("with guesses")
}

// Peers may try at the same time.
func TestConcurrentGuesses(t *testing.T) {
	var g Guesses
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				g.Try(&http.Request{RemoteAddr: fmt.Sprintf("10.0.0.%d:1", i%2)}, strconv.Itoa(j), "right")
				if index, _ := g.Try(&http.Request{RemoteAddr: "192.0.2.1:1"}, "right", "right"); index != 0 {
					t.Error("the right token is refused")
				}
			}
		})
	}
	all.Wait()
}

func TestRefuse(t *testing.T) {
	h := http.Header{}
	if reason := Refuse(h, 1500*time.Millisecond); reason != "too many wrong tokens from this address; try again in 2 s" || h.Get("Retry-After") != "2" {
		t.Errorf("%q, %v", reason, h)
	}
}
