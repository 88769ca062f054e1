// Package keyset keeps the keys of tokens that come by address: JWK sets, and the issuers of
// OpenID Connect whose discovery documents name them. It fetches them at intervals and when a
// token names a key that is not among them, and keeps the last good ones whatever an issuer
// answers.
package keyset

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

const (
	// fetchTime is the deadline of a fetch, with the discovery document and redirects.
	fetchTime = 5 * time.Second
	// loadTime is how long a rule set waits for keys before it decides.
	loadTime = 5 * time.Second
	// wantInterval is the least time between the beginnings of two fetches of a set.
	wantInterval = 10 * time.Second
	// retryInterval is the time from a fetch that failed to the next one, unless the refresh
	// is shorter.
	retryInterval = 30 * time.Second
)

// Options configure a Keeper.
type Options struct {
	// StateDir is a folder that keeps the keys over a restart; "" keeps none.
	StateDir string
	// Roots are the authorities that vouch for issuers; nil means those of the system.
	Roots *x509.CertPool
	// MayAsk returns an error if keys may not come from the host of an address: that of a line, of
	// a discovery document or of a redirect. Nil means that any host may be asked.
	MayAsk func(*url.URL) error
	// Logger receives what fails; nil means slog.Default.
	Logger *slog.Logger
	// Now is the clock, and After returns a channel that receives once a time has passed; nil
	// means those of package time.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Keeper keeps the sets of keys of a process, one for each address. Close it after use.
type Keeper struct {
	o      Options
	client *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	open  map[place]opened
	lines [roles][]line
}

// Role is what a rule set does in a process.
type Role int

// The roles of rule sets.
const (
	InForce Role = iota
	OnTrial
	roles // their number
)

// line is a line of [tokens] of a rule set with a role.
type line struct {
	at      place
	name    string
	refresh time.Duration
}

// place is where a set of keys comes from.
type place struct {
	from    rules.KeysFrom
	address string // of the JWK set, or the issuer
}

// opened is a set that a rule set still has.
type opened struct {
	set    *set
	handle weak.Pointer[handle]
}

// handle is what verifiers hold: a set ends with it.
type handle struct{ *set }

// New returns a keeper without sets.
func New(o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.MayAsk == nil {
		o.MayAsk = func(*url.URL) error { return nil }
	}
	k := &Keeper{o: o, client: newClient(o.Roots, o.MayAsk), open: make(map[place]opened)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// Source returns the keys of a line of [tokens], and begins to fetch them.
func (k *Keeper) Source(t *rules.JWT) tokens.Source {
	at := place{t.From, t.Keys}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.open[at]; ok {
		if h := known.handle.Value(); h != nil {
			return h
		}
		known.set.stop() // its handle is gone, and its cleanup has not run yet
	}
	s := newSet(k, at, t.Refresh)
	h := &handle{s}
	k.open[at] = opened{s, weak.Make(h)}
	runtime.AddCleanup(h, k.forget, s)
	s.restore()
	k.work.Go(s.keep)
	return h
}

// Use gives a rule set a role, which another one may have had; nil leaves the role to none. The
// lines of [tokens] that it uses count from now on: the shortest refresh of those with one address
// is the time between its fetches, and State has their names.
func (k *Keeper) Use(as Role, set *rules.Set) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines[as] = nil
	if set != nil {
		for _, t := range set.Tokens {
			if t.IsUsed() && t.From != rules.FromFile {
				k.lines[as] = append(k.lines[as], line{place{t.From, t.Keys}, t.Name, t.Refresh})
			}
		}
	}
	refresh, names := make(map[place]time.Duration), make(map[place][]string)
	seen := make(map[string]bool)
	for _, list := range k.lines {
		for _, l := range list {
			if span := refresh[l.at]; span == 0 || l.refresh < span {
				refresh[l.at] = l.refresh
			}
			if !seen[l.name] { // a line on trial may have the name of one in force
				seen[l.name] = true
				names[l.at] = append(names[l.at], l.name)
			}
		}
	}
	for at, one := range k.open {
		one.set.use(refresh[at], names[at])
	}
}

// Known returns the keys of a line of [tokens] if the process has them already, and otherwise a
// source without keys. It fetches nothing.
func (k *Keeper) Known(t *rules.JWT) tokens.Source {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.open[place{t.From, t.Keys}].handle.Value(); h != nil {
		return h
	}
	return (*tokens.Keys)(nil)
}

// forget ends a set that no rule set has any more, and removes its file.
func (k *Keeper) forget(s *set) {
	s.stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open[s.at].set == s {
		delete(k.open, s.at)
		if k.o.StateDir != "" && k.ctx.Err() == nil {
			s.remove()
		}
	}
}

// Await waits until each set has keys or has been fetched once, for 5 s at most. It removes
// old files in the state folder that no set in use has.
func (k *Keeper) Await() {
	k.sweep()
	deadline := k.o.After(loadTime)
	for _, s := range k.sets() {
		select {
		case <-s.ready:
		case <-deadline:
			return
		case <-k.ctx.Done():
			return
		}
	}
}

// sets returns the sets in use, by their addresses.
func (k *Keeper) sets() []*set {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*set, 0, len(k.open))
	for _, one := range k.open {
		list = append(list, one.set)
	}
	slices.SortFunc(list, func(a, b *set) int { return strings.Compare(a.at.address, b.at.address) })
	return list
}

// State is the state of a set of keys.
type State struct {
	// Tokens are the names of the lines of [tokens] that use it, in force or else on trial.
	Tokens []string
	Keys   int       // in use
	At     time.Time // the last good fetch or, before it, when the set was first wanted
	// Fetches and Failures count the attempts since the process began to use the set.
	Fetches, Failures uint64
	LastError         string // of the last attempt; "" if it was good
}

// States returns the states of the sets in use.
func (k *Keeper) States() []State {
	var list []State
	for _, s := range k.sets() {
		list = append(list, s.now())
	}
	return list
}

// Close ends all fetches.
func (k *Keeper) Close() {
	k.cancel()
	k.work.Wait()
	k.client.CloseIdleConnections()
}
