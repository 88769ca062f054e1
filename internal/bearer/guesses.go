package bearer

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/peer"
)

const (
	// guessTime is the time for which wrong tokens of a peer are remembered.
	guessTime = time.Minute
	// maxGuesses is the number of wrong tokens of a peer in that time.
	maxGuesses = 5
	// maxPeers bounds the peers with wrong tokens that are remembered, in each of two
	// generations.
	maxPeers = 2048
)

// Guesses compares the tokens that peers send with those of an address, and slows peers that
// guess: after five different wrong tokens in a minute, no further token of the peer's
// address is compared until the minute is over. One wrong token that a peer repeats, as a
// program with an old one does, counts once, and is refused in the same way after five
// times; right tokens from the same address pass. Peers do not slow each other: beyond a
// bound, the peers whose guesses are oldest are forgotten. The zero value is ready; it is
// safe for concurrent use.
type Guesses struct {
	now func() time.Time // nil for time.Now

	any    atomic.Bool // there were wrong tokens; right tokens need no lock without any
	mu     sync.Mutex
	seed   maphash.Seed
	recent map[netip.Addr]*tries
	older  map[netip.Addr]*tries // a full recent, replaced by the next one
}

// tries are the wrong tokens of a peer since a time.
type tries struct {
	since  time.Time
	count  int
	tokens []uint64 // their hashes, each once
}

// Try returns the index of the required token that equals the token of a request, -1 for
// none. A token that is sent by a peer that must wait is not compared: Try then returns the
// time until the peer may try again. The empty token is none, and no guess.
func (g *Guesses) Try(r *http.Request, sent string, required ...string) (index int, wait time.Duration) {
	if sent == "" {
		return -1, 0
	}
	if g.any.Load() {
		if wait := g.wait(r, sent); wait > 0 {
			return -1, wait
		}
	}
	for i, one := range required {
		if Equal(sent, one) {
			return i, 0
		}
	}
	g.note(r, sent)
	return -1, 0
}

// wait returns the time after which a token of the peer is compared.
func (g *Guesses) wait(r *http.Request, sent string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.of(peer.Of(r))
	if t == nil || t.count < maxGuesses {
		return 0
	}
	left := guessTime - g.clock().Sub(t.since)
	if left <= 0 || len(t.tokens) < maxGuesses && !slices.Contains(t.tokens, maphash.String(g.seed, sent)) {
		return 0
	}
	return left
}

// note notes a wrong token.
func (g *Guesses) note(r *http.Request, sent string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.any.Load() {
		g.seed, g.recent = maphash.MakeSeed(), make(map[netip.Addr]*tries)
		g.any.Store(true)
	}
	at, now := peer.Of(r), g.clock()
	t := g.of(at)
	if t == nil {
		t = new(tries)
	}
	if now.Sub(t.since) >= guessTime {
		*t = tries{since: now, tokens: t.tokens[:0]}
	}
	t.count++
	if hash := maphash.String(g.seed, sent); len(t.tokens) < maxGuesses && !slices.Contains(t.tokens, hash) {
		t.tokens = append(t.tokens, hash)
	}
	if g.recent[at] == nil && len(g.recent) >= maxPeers {
		g.older, g.recent = g.recent, make(map[netip.Addr]*tries)
	}
	g.recent[at] = t
}

// of returns the wrong tokens of a peer, nil for none.
func (g *Guesses) of(at netip.Addr) *tries {
	if t := g.recent[at]; t != nil {
		return t
	}
	return g.older[at]
}

func (g *Guesses) clock() time.Time {
	if g.now != nil {
		return g.now()
	}
	return time.Now()
}

// Refuse sets Retry-After in the answer to a peer that must wait, whose status is 429, and
// returns the reason.
func Refuse(answer http.Header, wait time.Duration) string {
	seconds := strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
	answer.Set("Retry-After", seconds)
	return "too many wrong tokens from this address; try again in " + seconds + " s"
}
