package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

const (
	// beatInterval is the time between two heartbeats. A commit is known well before
	// its instant.
	beatInterval = 200 * time.Millisecond
	// retryInterval is the time between two attempts to load a version.
	retryInterval = 2 * time.Second
	// firstTimeout bounds the loading at startup.
	firstTimeout = time.Minute
	// writeAgain is the time after which a version is written back again that was not.
	writeAgain = 3 * time.Second
)

// MemberOptions configure a Member. Records is required; the Member does not close it.
type MemberOptions struct {
	Records *Records
	// Rules are the options of the parser.
	Rules rules.Options
	// StateDir is a folder for this instance alone that keeps the last active version,
	// for a start without Redis. "" keeps it in memory only.
	StateDir string
	// Describe returns the description of the instance; the Member adds its id and its
	// rules. Nil describes nothing more.
	Describe func() Instance
	// Notify is called with the state of the rules whenever it changes, by one goroutine
	// at a time. It may be nil.
	Notify func(reload.State)
	// Expect is called with each set that was loaded and may come into force, before the
	// instance says that it is ready. Forget is called with such a set that is not needed any
	// more, also while Expect runs for another one. Both may be nil.
	Expect func(context.Context, *rules.Set)
	Forget func(*rules.Set)
	// Try is called with the version of a trial when it begins, and with nil when it
	// ends, by one goroutine at a time. It may be nil.
	Try func(*Tried)
	// Logger receives a line for every version and every refusal; nil for slog.Default.
	Logger *slog.Logger
}

// Tried is a version on trial.
type Tried struct {
	Number uint64
	Set    *rules.Set
}

// Member is an instance that decides by the published rules.
type Member struct {
	o       MemberOptions
	id      string
	folder  folder
	trigger chan struct{}

	mu      sync.Mutex
	state   reload.State
	current *version
	// versions are the loaded versions by their numbers: the current one, and the versions
	// that are proposed or on trial.
	versions map[uint64]*version
	answer   Heartbeat // About, Answer and Sum only
	accepted uint64    // the highest version that was in force here
	known    uint64    // the highest number of a version that was loaded here

	isUnwritten atomic.Bool // the active version is not written back, although Redis has lost it

	// The rest belongs to the goroutine of First, then of Run.
	apply    func(*rules.Set)
	next     *version // comes into force at the instant of due
	due      *time.Timer
	loading  uint64 // the version that is being loaded, 0 for none
	failed   map[uint64]time.Time
	trying   uint64
	problem  string // the last one that was logged
	inForce  uint64 // by the last heartbeat
	proposed string // the sum of the proposed version, by the last heartbeat
	isAway   bool   // Redis did not answer the last heartbeat
	jobs     chan job
	prunes   chan struct{}
	losses   chan struct{} // Redis has lost the active version
	hasLost  bool          // by the last heartbeat, Redis has nothing in force
	again    time.Time     // when it may be written back again
	finished chan loadResult
}

// loadResult is the result of loading a version.
type loadResult struct {
	number  uint64
	version *version
	err     error
}

// NewMember returns a Member, without calling Redis.
func NewMember(o MemberOptions) *Member {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Notify == nil {
		o.Notify = func(reload.State) {}
	}
	if o.Describe == nil {
		o.Describe = func() Instance { return Instance{} }
	}
	if o.Expect == nil {
		o.Expect = func(context.Context, *rules.Set) {}
	}
	if o.Forget == nil {
		o.Forget = func(*rules.Set) {}
	}
	if o.Try == nil {
		o.Try = func(*Tried) {}
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	m := &Member{
		o: o, folder: folderIn(o.StateDir), trigger: make(chan struct{}, 1), versions: make(map[uint64]*version),
		failed: make(map[uint64]time.Time), jobs: make(chan job, 1), prunes: make(chan struct{}, 1), losses: make(chan struct{}, 1), finished: make(chan loadResult, 1),
	}
	m.id = hex.EncodeToString(random[:])
	m.accepted = m.folder.highest()
	m.known = m.accepted
	return m
}

// Trigger makes Run ask Redis at once.
func (m *Member) Trigger() {
	select {
	case m.trigger <- struct{}{}:
	default: // a question is already pending
	}
}

// State returns the state of the rules. It is safe for concurrent use.
func (m *Member) State() reload.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// First returns the rules in force, or without them the rules in StateDir. It returns nil if
// there are none yet: State says why.
func (m *Member) First(ctx context.Context) *rules.Set {
	ctx, cancel := context.WithTimeout(ctx, firstTimeout)
	defer cancel()
	v, err := m.loadFirst(ctx)
	if v != nil {
		m.accept(ctx, v)
		return v.set
	}
	reason := "no rules have been published yet: koalagate publish PATH"
	if err != nil {
		reason = err.Error()
	}
	if restored := m.restore(context.WithoutCancel(ctx), faultOf(err), reason); restored != nil {
		return restored
	}
	m.complain(faultOf(err), reason)
	return nil
}

// loadFirst loads the version in force; nil without an error if there is none.
func (m *Member) loadFirst(ctx context.Context) (*version, error) {
	now, err := m.o.Records.State(ctx)
	if err != nil || now.InForce == 0 {
		return nil, err
	}
	if now.InForce < m.accepted {
		return nil, m.outdated(now.InForce)
	}
	return m.loadInForce(ctx, now.InForce)
}

func (m *Member) outdated(number uint64) error {
	return refused("Redis has version %d in force, although this instance has seen version %d (an old copy of Redis?): koalagate publish --restore publishes the rules of an instance again", number, m.accepted)
}

// restore activates the version in StateDir, and returns its set or nil.
func (m *Member) restore(ctx context.Context, fault reload.Fault, reason string) *rules.Set {
	var purpose Purpose
	manifest, value, contents, savedAt, err := m.folder.load(func(value []byte) (opened *Manifest, err error) {
		opened, purpose, err = m.o.Records.openSaved(value)
		return opened, err
	})
	if err != nil {
		if m.folder != "" {
			m.o.Logger.Warn("state_dir contains no usable version", "state_dir", m.o.StateDir, "error", err)
		}
		return nil
	}
	set, findings, err := Parse(ctx, manifest, contents, m.o.Rules)
	if err != nil {
		m.o.Logger.Error("state_dir contains no usable version", "state_dir", m.o.StateDir, "error", err)
		return nil
	}
	m.accept(ctx, &version{manifest: manifest, value: value, sum: sumOf(value), purpose: purpose, set: set, findings: findings})
	m.change(func(s *reload.State) { s.Restored, s.SavedAt = true, savedAt })
	m.complain(fault, "starting with version "+numberText(manifest.Number)+" of state_dir: "+reason)
	return set
}

// Run keeps the rules in step with Redis until ctx is done, and passes each new set to
// apply at the instant at which it comes into force.
func (m *Member) Run(ctx context.Context, apply func(*rules.Set)) {
	m.apply = apply
	m.due = time.NewTimer(time.Hour)
	defer m.due.Stop()
	beats := make(chan beatResult)
	var helpers sync.WaitGroup
	helpers.Go(func() { m.beatUntil(ctx, beats) })
	helpers.Go(func() { m.loadUntil(ctx) })
	helpers.Go(func() { m.maintainUntil(ctx) })
	for {
		select {
		case <-ctx.Done():
			helpers.Wait()
			m.o.Try(nil)
			return
		case b := <-beats:
			m.follow(&b)
		case l := <-m.finished:
			m.loading = 0
			m.receive(&l)
		case <-m.due.C:
			m.enforce(ctx)
		}
	}
}

// beatResult is the result of a heartbeat.
type beatResult struct {
	State
	at  time.Time // by the monotonic clock, when Redis read its own
	err error
}

// beatUntil sends heartbeats until ctx is done, and takes leave then.
func (m *Member) beatUntil(ctx context.Context, to chan<- beatResult) {
	delay.Every(ctx, beatInterval, m.trigger, func() {
		b := m.beat(ctx, false)
		select {
		case to <- b:
		case <-ctx.Done():
		}
	})
	// Otherwise a publish would wait for this instance until it counts as gone.
	m.beat(context.WithoutCancel(ctx), true)
}

func (m *Member) beat(ctx context.Context, leaves bool) beatResult {
	m.mu.Lock()
	h := m.answer
	m.mu.Unlock()
	h.ID, h.Leaves = m.id, leaves
	h.Text, _ = json.Marshal(m.describe()) // strings and numbers can always be encoded
	began := time.Now()
	state, err := m.o.Records.Beat(ctx, &h)
	return beatResult{State: state, at: began.Add(time.Since(began) / 2), err: err}
}

// describe returns the description of the instance.
func (m *Member) describe() Instance {
	s, one := m.State(), m.o.Describe()
	one.ID, one.Hash, one.Since, one.LastError, one.State = m.id, s.Hash, s.LoadedAt.UTC(), s.LastError, "ready"
	if s.Release != nil {
		one.Version = s.Release.Version
	}
	if !s.IsReady() {
		one.State = "not_ready"
	}
	return one
}
