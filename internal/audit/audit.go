// Package audit keeps who changed what, when, at a running instance. With Redis all
// instances share the trail: one list with a bounded length, which expires a month after the
// last change. Each instance remembers its own changes, too, for the time in which Redis
// does not answer and for changes that it could not write. The log has every change,
// whatever becomes of the trail. What Redis returns is checked.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/loglimit"
)

// Change is a change by an operator.
type Change struct {
	At     time.Time `json:"at"`
	Author string    `json:"author"` // as the caller states it, or the name in its certificate
	Peer   string    `json:"peer"`   // the address of the caller
	Host   string    `json:"host"`   // of the instance that received it
	Action string    `json:"action"` // such as reset
	Detail string    `json:"detail"` // what was changed
}

// Max is the number of changes that the trail keeps.
const Max = 1000

// Options are the options of New.
type Options struct {
	// Redis holds the trail of all instances below Prefix; nil for the trail of this process. The
	// trail does not close it.
	Redis  goredis.UniversalClient
	Prefix string
	// Host is the name of this host.
	Host string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Logger receives every change, and faults of Redis. The default is slog.Default.
	Logger *slog.Logger
}

// Trail keeps the last changes. It is safe for concurrent use.
type Trail struct {
	o       Options
	records *records // nil without Redis
	warner  loglimit.Warner

	mu  sync.Mutex
	own []record // of this process, the oldest first
}

// New returns a trail, without calling Redis.
func New(o Options) *Trail {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	t := &Trail{o: o, warner: loglimit.Warner{Logger: o.Logger}}
	if o.Redis != nil {
		t.records = &records{client: o.Redis, key: o.Prefix + ":{audit}:changes"}
	}
	return t
}

// Add logs and keeps a change, whose At and Host it sets, and returns it. The end of ctx
// does not prevent that.
func (t *Trail) Add(ctx context.Context, c *Change) *Change {
	one := record{ID: rand.Text()[:idLength], Change: *c}
	one.At, one.Host = t.o.Now().UTC(), t.o.Host
	t.o.Logger.Info("an operator made a change", "action", one.Action, "detail", one.Detail, "author", one.Author, "peer", one.Peer)
	t.mu.Lock()
	if len(t.own) >= Max {
		t.own = slices.Delete(t.own, 0, Max/10)
	}
	t.own = append(t.own, one)
	t.mu.Unlock()
	if t.records != nil {
		if err := t.records.write(context.WithoutCancel(ctx), &one); err != nil {
			t.warner.Warn("the other instances do not know a change by an operator", "action", one.Action, "error", err)
		}
	}
	return &one.Change
}

// Changes returns the last changes, the latest first: at all instances, or at this one
// without Redis or if it does not answer.
func (t *Trail) Changes(ctx context.Context) (list []Change, isFleet bool) {
	all := make([]record, 0, Max)
	if t.records != nil {
		read, err := t.records.read(ctx)
		if isFleet = err == nil; isFleet {
			all = append(all, read...)
		} else {
			t.warner.Warn("the changes at other instances cannot be read", "error", err)
		}
	}
	known := make(map[string]bool, len(all))
	for i := range all {
		known[all[i].ID] = true
	}
	t.mu.Lock()
	for i := range t.own {
		if !known[t.own[i].ID] {
			all = append(all, t.own[i])
		}
	}
	t.mu.Unlock()
	slices.SortStableFunc(all, func(a, b record) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	all = all[:min(len(all), Max)]
	list = make([]Change, len(all)) // never nil: JSON would say null
	for i := range all {
		list[i] = all[i].Change
	}
	return list, isFleet
}
