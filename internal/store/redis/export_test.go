package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
)

// Key returns the key of a subject.
func Key(prefix, subject string) string {
	return string(appendKey(nil, keyBegin(prefix, "", false), []byte(subject)))
}

// FixedKey returns the key of a subject with a fixed tag.
func FixedKey(prefix, subject string) string {
	return string(appendKey(nil, keyBegin(prefix, "", true), []byte(subject)))
}

// SetSkew sets how far Redis's clock is ahead, in ms.
func (s *Store) SetSkew(ms int64) { s.evaluator.skew.Store(ms) }

// Skew returns how far Redis's clock is ahead, as measured, in ms.
func (s *Store) Skew() int64 { return s.evaluator.skew.Load() }

// SetRefusalClock sets the clock of the memory of refusals, in ms.
func (s *Store) SetRefusalClock(clock func() int64) { s.evaluator.refusals.clock = clock }

// Deadline returns when a call that begins now must end.
func (s *Store) Deadline(ctx context.Context, now time.Time) time.Time {
	return s.evaluator.deadline(ctx, now)
}

// Prefix returns the prefix of the keys.
func (s *Store) Prefix() string { return s.evaluator.prefix }

// EvaluateTogether carries out plans of one clock in order, as if that many
// calls had gathered: in one script call, in one round trip, or one after the
// other, according to the batching.
func (s *Store) EvaluateTogether(plans []*store.Plan, answers []store.Answers) error {
	return errors.Join(s.EvaluateEach(plans, answers)...)
}

// EvaluateEach is EvaluateTogether, and returns the error of each plan.
func (s *Store) EvaluateEach(plans []*store.Plan, answers []store.Answers) []error {
	e := s.evaluator
	server := &server{e, s.client}
	defer e.ForgetRefusals()
	var calls []*Call
	for _, p := range plans {
		c := e.NewCall(p)
		c.done = make(chan struct{}, 1)
		calls = append(calls, c)
	}
	bundles := s.batcher.bundle(nil, calls)
	switch {
	case s.batcher.batching == BatchScript && len(bundles) > 1:
		return []error{errors.New("these plans do not fit into one script call")}
	case s.batcher.batching == BatchOff:
		for _, b := range bundles {
			server.exchange(context.Background(), []*bundle{b})
		}
	default:
		server.exchange(context.Background(), bundles)
	}
	faults := make([]error, len(calls))
	for i, c := range calls {
		<-c.done
		answers[i].Reset(len(plans[i].Sets))
		if faults[i] = c.err; c.err == nil {
			faults[i] = c.Read(plans[i], &answers[i])
		}
	}
	return faults
}

// Taken is a take that can be given back.
type Taken struct {
	plan store.Plan
	undo []Undo
}

// TakePart takes like the part of a larger take in one slot, and returns what
// gives it back; nil if it was refused.
func (s *Store) TakePart(ctx context.Context, p *store.Plan) (*Taken, error) {
	c := s.evaluator.NewCall(p)
	c.WantUndo()
	if _, err := s.batcher.Send(ctx, c); err != nil {
		return nil, err
	}
	var before, after store.Answers
	undo, err := c.ReadTake(&before, &after)
	if err != nil || undo == nil {
		return nil, err
	}
	return &Taken{*p, undo}, nil
}

// GiveBack gives back what was taken, by a clock.
func (s *Store) GiveBack(ctx context.Context, taken *Taken, now int64) error {
	p := taken.plan
	p.Now = now
	c := s.evaluator.NewCall(&p)
	c.GiveBack(taken.undo, "", "")
	_, err := s.batcher.Send(ctx, c)
	return err
}

// Window returns the end of the window that the limit of a count or base rule
// applies to, and what the take counted in it; 0 if nothing.
func (t *Taken) Window(m store.Method) (end, hits int64) {
	u := t.undo[0]
	switch {
	case u.flags == 0:
		return 0, 0
	case m == store.Base:
		return u.c, u.b
	}
	return u.a, t.plan.Sets[0].Rules[0].Weight
}

// WithoutPlain makes the script carry out each request by the functions for all requests.
func (s *Store) WithoutPlain() {
	const mark = "  if plain and settles then\n"
	text := strings.Replace(script(), mark, "  plain = false\n"+mark, 1)
	if text == script() {
		panic("the script has no such line")
	}
	s.evaluator.script = goredis.NewScript(text)
}
