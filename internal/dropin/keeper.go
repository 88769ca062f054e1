// Package dropin lets koalagate replace envoyproxy/ratelimit: it keeps
// the current limits (keeper.go), and serves the pages that envoyproxy/ratelimit has on
// its HTTP and debug addresses (pages.go).
//
// Its subpackages have the parts that do not depend on each other: environ reads the
// environment variables, folder and xds watch the two sources of limits, and statistics
// counts under the names of envoyproxy/ratelimit. Package ratelimit has the door, and
// internal/service puts everything together.
package dropin

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// Loads receives the result of each attempt to load limits. It must return at once.
type Loads interface {
	Loaded(ok bool)
}

// Keeper keeps the limits that decide. The zero value is not usable; use NewKeeper. It
// is safe for concurrent use.
type Keeper struct {
	merge  bool
	loads  Loads
	logger *slog.Logger

	current atomic.Pointer[envoylimits.Set]
	changed atomic.Pointer[func()]
	first   chan struct{} // closed after the first attempt
	once    sync.Once
}

// NewKeeper returns a keeper without limits. Several configurations may concern one
// domain if merge is true.
func NewKeeper(merge bool, loads Loads, logger *slog.Logger) *Keeper {
	return &Keeper{merge: merge, loads: loads, logger: logger, first: make(chan struct{})}
}

// Current returns the current limits, nil if none were loaded yet.
func (k *Keeper) Current() *envoylimits.Set { return k.current.Load() }

// Watch has f called after each change of the limits, and once at once.
func (k *Keeper) Watch(f func()) {
	k.changed.Store(&f)
	f()
}

// First returns a channel that is closed after the first attempt to load limits.
func (k *Keeper) First() <-chan struct{} { return k.first }

// Apply makes configurations the current limits. If any of them is faulty, the current
// limits stay, and the error says why.
func (k *Keeper) Apply(configs []*envoylimits.Config) error {
	set, err := k.Compile(configs)
	if err != nil {
		k.Reject(err)
		return err
	}
	k.current.Store(set)
	if changed := k.changed.Load(); changed != nil {
		(*changed)()
	}
	k.loads.Loaded(true)
	k.once.Do(func() { close(k.first) })
	k.logger.Info("limits are active", "domains", set.Domains(), "limits", len(set.Limits()))
	return nil
}

// Compile returns configurations as limits, which it does not keep.
func (k *Keeper) Compile(configs []*envoylimits.Config) (*envoylimits.Set, error) {
	return envoylimits.Compile(configs, k.merge)
}

// Take applies configurations, or rejects them with the error with which they were read.
func (k *Keeper) Take(configs []*envoylimits.Config, err error) {
	if err != nil {
		k.Reject(err)
		return
	}
	_ = k.Apply(configs) // which has logged its error
}

// Reject reports limits that could not be read. The current limits stay.
func (k *Keeper) Reject(err error) {
	k.loads.Loaded(false)
	k.once.Do(func() { close(k.first) })
	state := "the previous limits stay"
	if k.Current() == nil {
		state = "there are none yet; every call fails until they are mended"
	}
	k.logger.Error("the limits are invalid", "error", err, "state", state)
}
