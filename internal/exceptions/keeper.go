package exceptions

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// Options are the options of New.
type Options struct {
	// Max is the maximum number of exceptions; 0 means 100,000.
	Max int
	// Redis holds the exceptions of all instances, below Prefix; nil for the exceptions of this
	// process. The keeper does not close it.
	Redis  goredis.UniversalClient
	Prefix string
	// PublicKey verifies the signatures of exceptions; nil accepts those without one.
	PublicKey ed25519.PublicKey
	// Limits finds imported limits; nil if there are none.
	Limits Limits
	// Hide returns an identity with masks instead of the values with these names; nil shows all.
	Hide func(identity map[string]string, names []string) map[string]string
	// Ended is called by Run about each ban that has ended or that another instance has removed, and
	// again later if it returns an error; nil for nothing. Until is when the ban was in force for
	// certain.
	Ended func(ctx context.Context, ban *Exception) error
	// Now is the clock of this process; nil for time.Now.
	Now func() time.Time
	// Logger receives faults of Redis. The default is slog.Default.
	Logger *slog.Logger
}

// Limits returns the match of the imported limit with a path and of the descriptor with the
// values of its keys, and all values of the descriptor by key.
type Limits func(path string, values map[string]string) (rules.Match, map[string]string, error)

// Keeper keeps the exceptions. It is safe for concurrent use.
type Keeper struct {
	engine  engine.Exceptions
	max     int
	prefix  string
	key     ed25519.PublicKey // nil if signatures are not required
	records *records          // nil without Redis
	limits  Limits            // nil without imported limits
	hide    func(identity map[string]string, names []string) map[string]string
	ended   func(ctx context.Context, ban *Exception) error // nil for nothing
	now     func() time.Time
	warner  loglimit.Warner
	added   chan struct{} // has a value when Add has added exceptions

	// changing is held while exceptions are changed or read, which may wait for Redis, and
	// guards all, looked and over. resolved gets no other exceptions meanwhile, unless new rules
	// replace it.
	changing sync.Mutex
	version  string                // of all in Redis
	looked   time.Time             // when Redis had that version
	over     []*Exception          // bans about which ended is to be called
	all      map[string]*Exception // by place; an exception never changes

	// mu is held for moments only: new rules and questions do not wait for Redis.
	mu       sync.Mutex
	set      *rules.Set                  // by which resolved was made
	edits    uint64                      // of set, ordered and resolved
	ordered  []*Exception                // the same, the one that ends next first; a change replaces the list
	resolved map[string]engine.Exception // by ID; without exceptions that the rules do not allow
	limited  uint64                      // how often the imported limits have changed
	next     *view                       // ready, of a set that may replace this one soon; nil if none may
	expected uint64                      // edits when next was made
}

// defaultMax is the default of max_exceptions, and the number that there is room for if it is lower.
const defaultMax = 100_000

// New returns a keeper without exceptions.
func New(o Options) *Keeper {
	k := &Keeper{
		max: cmp.Or(o.Max, defaultMax), prefix: o.Prefix, key: o.PublicKey, limits: o.Limits, hide: o.Hide, ended: o.Ended, now: o.Now,
		all: make(map[string]*Exception), resolved: make(map[string]engine.Exception), added: make(chan struct{}, 1),
	}
	if k.now == nil {
		k.now = time.Now
	}
	if k.hide == nil {
		k.hide = func(identity map[string]string, _ []string) map[string]string { return identity }
	}
	if k.warner.Logger = o.Logger; o.Logger == nil {
		k.warner.Logger = slog.Default()
	}
	if o.Redis != nil {
		k.records = newRecords(o.Redis, o.Prefix, o.PublicKey, k.max)
	}
	k.engine.SetClock(func() int64 { return k.Now().UnixMilli() })
	return k
}

// Engine returns the exceptions for engine.WithExceptions.
func (k *Keeper) Engine() *engine.Exceptions { return &k.engine }

// Now returns the time by which exceptions end: the time in the last answer of Redis,
// advanced by the clock of this process, or the time of this process without Redis.
func (k *Keeper) Now() time.Time {
	if k.records == nil {
		return k.now()
	}
	return k.now().Add(time.Duration(k.records.ahead.Load()))
}

// Expect makes the exceptions ready for a rule set ahead of its Use, which then takes a moment,
// also with 100,000 exceptions, unless they change meanwhile: a published version comes into force
// at its instant. It works in pauses of decisions, and nothing waits for it. The set takes the
// place of the one that was expected before. The end of ctx does not end the work.
func (k *Keeper) Expect(ctx context.Context, set *rules.Set) {
	pause := pausing(ctx)
	k.mu.Lock()
	next, edits := &view{set: set, ordered: k.ordered, resolved: make(map[string]engine.Exception)}, k.edits
	limited := k.limited
	k.mu.Unlock()
	k.prepare(next, pause)
	for i := range next.ready.fresh {
		pause()
		next.resolved[next.ready.fresh[i].ID] = next.ready.fresh[i]
	}
	next.ready.fresh = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	if limited == k.limited {
		k.next, k.expected = next, edits
	}
}

// Forget drops what Expect prepared for a set. Another set that is expected stays so.
func (k *Keeper) Forget(set *rules.Set) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != nil && k.next.set == set {
		k.next = nil
	}
}

// Use resolves the exceptions by a rule set, in pauses of decisions. It must be called before the
// set decides.
func (k *Keeper) Use(set *rules.Set) {
	k.renew(pausing(context.Background()), func(v *view) {
		v.set, v.resolved = set, make(map[string]engine.Exception)
		if k.next == nil || k.next.set != set {
			return
		}
		v.resolved = k.next.resolved
		if k.edits == k.expected {
			v.ready = k.next.ready
		}
	})
	k.Forget(set)
}

// UseLimits resolves the exceptions by the current imported limits, in pauses of decisions. It is
// called after the limits changed.
func (k *Keeper) UseLimits() {
	k.mu.Lock()
	k.limited++
	k.next = nil // by the former limits
	k.mu.Unlock()
	k.renew(pausing(context.Background()), func(v *view) { v.resolved = make(map[string]engine.Exception) })
}

// Add adds exceptions, all of them or none, and returns them as they are in force. Those
// without a signature get an ID. The error is an InvalidError, a *ConflictError or ErrUnsigned,
// each in an *EntryError, ErrFull, or an error of Redis. If Redis fails, some may be in force: repeat the
// exceptions that List does not return. Callers who leave before Redis is asked change nothing.
func (k *Keeper) Add(ctx context.Context, list []Exception) ([]Exception, error) {
	list, err := k.complete(ctx, list)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		if err := list[i].verify(k.key, k.prefix); err != nil {
			return nil, &EntryError{i, err}
		}
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	now := k.Now()
	added, err := k.byPlace(ctx, list, now)
	if err != nil {
		return nil, err
	}
	pause := pausing(ctx)
	k.drop(now, pause)
	if len(k.all)+len(added) > k.max {
		return nil, ErrFull
	}
	if k.records != nil {
		// k.version stays: another instance may have changed something just before.
		if err := k.records.add(ctx, list); err != nil {
			return nil, err
		}
	}
	for place, x := range added {
		pause()
		k.all[place] = x
	}
	more := inOrder(added, pause)
	all := merged(k.list(), more)
	k.renew(pause, func(v *view) { v.ordered, v.added = all, more })
	select {
	case k.added <- struct{}{}:
	default:
	}
	return list, nil
}

// Prepare returns exceptions as Add would add them, with IDs and canonical identities, to
// be signed. It changes nothing. The error is one of Add.
func (k *Keeper) Prepare(ctx context.Context, list []Exception) ([]Exception, error) {
	list, err := k.complete(ctx, list)
	if err != nil {
		return nil, err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	_, err = k.byPlace(ctx, list, k.Now())
	return list, err
}

// complete checks new exceptions, and returns them with IDs and canonical identities.
func (k *Keeper) complete(ctx context.Context, list []Exception) ([]Exception, error) {
	k.mu.Lock()
	set := k.set
	k.mu.Unlock()
	switch {
	case set == nil:
		return nil, invalid("no rules are loaded")
	case len(list) > k.max:
		return nil, ErrFull
	}
	list = slices.Clone(list)
	for i := range list {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		x := &list[i]
		x.Until = x.Until.UTC().Truncate(time.Millisecond)
		if err := x.check(set, k.limits, k.Now()); err != nil {
			return nil, &EntryError{i, err}
		}
		if x.Signature == "" {
			x.ID = rand.Text()[:idLength]
		}
	}
	return list, nil
}

// byPlace returns new exceptions by place, unless one is at the place of another.
// k.changing is held.
func (k *Keeper) byPlace(ctx context.Context, list []Exception, now time.Time) (map[string]*Exception, error) {
	added := make(map[string]*Exception, len(list))
	for i := range list {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		place := list[i].place()
		other, taken := added[place]
		if !taken {
			other, taken = k.all[place]
			taken = taken && other.Until.After(now)
		}
		if taken {
			return nil, &EntryError{i, &ConflictError{*other}}
		}
		kept := list[i] // the caller gets the list
		added[place] = &kept
	}
	return added, nil
}

// Prefix returns the prefix of the keys, which signatures cover.
func (k *Keeper) Prefix() string { return k.prefix }

// Counts returns the number of exceptions in force by Exception.What.
func (k *Keeper) Counts() map[string]int {
	counts := map[string]int{Count: 0, Allow: 0, Deny: 0, Ban: 0}
	for _, x := range k.inForce() {
		counts[x.What]++
	}
	return counts
}

// Remove removes an exception and returns it. The error is ErrUnknown, also if another instance has
// removed it, or an error of Redis.
func (k *Keeper) Remove(ctx context.Context, id string) (*Exception, error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	for place, x := range k.all {
		if x.ID != id {
			continue
		}
		var err error
		if k.records != nil {
			err = k.records.remove(ctx, x)
		}
		switch {
		case errors.Is(err, ErrUnknown):
			k.noteRemoved(x) // follow no longer finds that it is gone
		case err != nil:
			return nil, err
		}
		delete(k.all, place)
		left := slices.DeleteFunc(slices.Clone(k.list()), func(one *Exception) bool { return one == x })
		k.replace(k.all, left, pausing(ctx))
		if err != nil {
			return nil, err
		}
		return x, nil
	}
	return nil, ErrUnknown
}

// drop forgets exceptions that have ended, and returns them. k.changing is held.
func (k *Keeper) drop(now time.Time, pause func()) []Exception {
	all := k.list()
	left := after(all, now)
	if len(left) == len(all) {
		return nil
	}
	var ended []Exception
	for _, x := range all[:len(all)-len(left)] {
		pause()
		delete(k.all, x.place())
		ended = append(ended, *x)
		k.note(x, x.Until)
	}
	left = slices.Clone(left)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ordered = left
	k.edits++
	return ended
}

// noteRemoved notes a ban that another instance has removed since k.looked. k.changing is held.
func (k *Keeper) noteRemoved(x *Exception) {
	k.note(x, slices.MinFunc([]time.Time{x.Until, k.looked}, time.Time.Compare))
}

// note notes a ban that was in force until an instant, for report. k.changing is held.
func (k *Keeper) note(x *Exception, until time.Time) {
	if x.What != Ban || k.ended == nil || len(k.over) >= k.max {
		return
	}
	ban := *x
	ban.Until = until
	k.over = append(k.over, &ban)
}
