package store

import (
	"context"
	"errors"
)

// Key is the key of a subject.
func Key(prefix, subject string) string { return string(appendKey(nil, prefix, []byte(subject))) }

// SetSkew makes r believe that Redis's clock is that far ahead, in ms.
func (r *Redis) SetSkew(ms int64) { r.skew.Store(ms) }

// Skew is what r believes.
func (r *Redis) Skew() int64 { return r.skew.Load() }

// Prefix begins r's keys.
func (r *Redis) Prefix() string { return r.prefix }

// EvaluateTogether carries out plans of one clock in one script call, in their
// order, as if that many callers had gathered.
func (r *Redis) EvaluateTogether(plans []*Plan, answers []Answers) error {
	b := new(bundle)
	for _, p := range plans {
		c := new(call)
		c.done = make(chan struct{}, 1)
		c.pack(r.prefix, p)
		if !b.takes(c) {
			return errors.New("these plans do not go in one script call")
		}
		b.add(c)
	}
	r.exchange(context.Background(), []*bundle{b})
	for i, c := range b.calls {
		<-c.done
		if c.err != nil {
			return c.err
		}
		answers[i].reset(len(plans[i].Sets))
		if err := c.read(&answers[i]); err != nil {
			return err
		}
	}
	return nil
}
