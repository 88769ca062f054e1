package redis

import (
	"errors"
	"fmt"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

var errReply = errors.New("redis: invalid reply of the script")

// outcome is the reply of the script to a call.
type outcome struct {
	now  int64  // the clock of the decision
	sets string // the encoded answers to the call's sets
}

// wanted is what remains to be done after a reply of the script.
type wanted uint8

const (
	wantsNothing wanted = iota // the calls have ended
	wantsSpans                 // the spans do not fit the clock of Redis, and nothing was written
	wantsEach                  // the script failed and wrote nothing
)

// Values of the first byte of a reply.
const (
	replyNoSpan = 0
	replyDone   = 1
	replyFault  = 2
)

// Flags of a set's answer.
const (
	answerDecided  = 1
	answerDaily    = 2
	answerRefusals = 4
	answerHits     = 8
	answerEarly    = 16
	answerBanned   = 32
)

// neverRetry is store.Never in a reply.
const neverRetry = 1 << 55

// withoutPanics returns a function that calls f and drops its panics; nil for nil.
func withoutPanics(f func(key string)) func(key string) {
	if f == nil {
		return nil
	}
	return func(key string) {
		defer func() { _ = recover() }()
		f(key)
	}
}

// deliver gives every call of the bundle its part of the reply and reports
// damaged values to onDamage. If the script wrote nothing, the calls do not end, except
// for a single call whose script failed.
func (b *bundle) deliver(text string, onDamage func(key string)) wanted {
	r := reader{rest: text}
	code, now := r.uint(1), int64(r.uint(6))
	switch {
	case code == replyNoSpan && r.err() == nil:
		b.clock = now
		return wantsSpans
	case code == replyFault && !r.bad && len(b.calls) > 1:
		return wantsEach
	case code == replyFault && !r.bad:
		b.fail(fmt.Errorf("redis: the script failed and counted nothing: %s", r.rest))
		return wantsNothing
	case code != replyDone || r.bad || !b.split(&r, now, onDamage):
		b.fail(errReply)
		return wantsNothing
	}
	for _, c := range b.calls {
		c.finish(nil)
	}
	return wantsNothing
}

// split gives each call its part of the reply. It reports whether there was
// exactly one part per call.
func (b *bundle) split(r *reader, now int64, onDamage func(key string)) bool {
	for _, c := range b.calls {
		whole := r.rest
		for range c.sets {
			r.skipAnswer()
		}
		if c.wants {
			for range c.sets {
				r.skipAnswer()
			}
		}
		r.skipTurn(c)
		switch c.op {
		case readReceipt:
			r.skip(int(r.uint(4)))
		case leasePart:
			r.skip(leaseReply)
		case assignShares:
			r.skip(assignReply)
		}
		c.answer = outcome{now: now, sets: whole[:len(whole)-len(r.rest)]}
	}
	for len(r.rest) > 0 && !r.bad {
		i := r.uint(2)
		if i == 0 || i > uint64(len(b.names)) {
			return false
		}
		if onDamage != nil {
			onDamage(b.names[i-1].String())
		}
	}
	return !r.bad
}

// Read fills a with the answers to the plan's sets.
func (c *Call) Read(p *store.Plan, a *store.Answers) error {
	r := reader{rest: c.answer.sets}
	a.Now = c.answer.now
	for i := range p.Sets {
		r.answer(&a.Sets[i], p.Sets[i].Rules)
	}
	undone := c.waits && r.wait(a) && c.takes()
	undo := r.rest
	if undone {
		r.skipUndos(len(c.keys))
	}
	if c.kept && c.takes() && r.uint(1) == 1 {
		if a.Receipt = c.receipt; !undone {
			undo = r.rest
			r.skipUndos(len(c.keys))
		}
	}
	if undone || a.Receipt != "" {
		a.Undo = &turn{undo, c.tag, a.Receipt}
	}
	return r.err()
}

// wait reads the wait behind the answers, and reports whether there is one.
func (r *reader) wait(a *store.Answers) bool {
	if a.Wait = int64(r.uint(4)); a.Wait == 0 {
		return false
	}
	a.Waiter = [2]int{int(r.uint(2)), int(r.uint(2))}
	return !r.bad
}

// skipTurn skips the wait behind the answers to a call, the undo records, and whether a
// receipt was made or was valid.
func (r *reader) skipTurn(c *Call) {
	waits := c.waits && r.uint(4) > 0
	if waits {
		r.skip(2 + 2)
	}
	undone := c.wants || waits && c.takes()
	if undone {
		r.skipUndos(len(c.keys))
	}
	if c.kept && c.op != giveBack && c.op != readReceipt && r.uint(1) == 1 && c.takes() && !undone {
		r.skipUndos(len(c.keys))
	}
}

// reader reads numbers of fixed widths. After the first error all are 0.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) err() error {
	if r.bad || len(r.rest) > 0 {
		return errReply
	}
	return nil
}

// uint reads a number of n bytes.
func (r *reader) uint(n int) uint64 {
	if len(r.rest) < n {
		r.bad, r.rest = true, ""
		return 0
	}
	number := uint64(0)
	for i := range n {
		number = number<<8 | uint64(r.rest[i])
	}
	r.rest = r.rest[n:]
	return number
}

// skip skips n bytes.
func (r *reader) skip(n int) {
	if len(r.rest) < n {
		r.bad, r.rest = true, ""
		return
	}
	r.rest = r.rest[n:]
}

// skipAnswer skips the answer to a set.
func (r *reader) skipAnswer() {
	flags := r.uint(1)
	r.skip(2 + 7 + 7)
	if flags&answerDecided != 0 {
		r.skip(7)
	}
	if flags&answerRefusals != 0 {
		r.skip(2 * int(r.uint(2)))
	}
	if flags&answerHits != 0 {
		r.skip(7)
	}
}

// answer reads the answer to a set with these rules.
func (r *reader) answer(a *store.Answer, rules []store.Rule) {
	flags := r.uint(1)
	a.Reporter = int(int16(r.uint(2)))
	if a.Reporter < -1 || a.Reporter >= len(rules) || a.Reporter < 0 && flags&answerDecided != 0 {
		r.bad, a.Reporter = true, -1
		return
	}
	a.Remaining, a.Reset = int64(r.uint(7)), int64(r.uint(7))
	a.Daily, a.Banned = flags&answerDaily != 0, flags&answerBanned != 0
	if a.Reporter >= 0 {
		a.Limit = limit(&rules[a.Reporter], a.Daily)
	}
	if flags&answerDecided != 0 {
		a.Decider, a.Early = a.Reporter, flags&answerEarly != 0
		if a.Retry = int64(r.uint(7)); a.Retry == neverRetry {
			a.Retry = store.Never
		}
	}
	if flags&answerRefusals != 0 {
		for n := r.uint(2); n > 0 && !r.bad; n-- {
			i := int(r.uint(2))
			if i >= len(rules) {
				r.bad = true
				return
			}
			a.Refusals = append(a.Refusals, i)
		}
	}
	if flags&answerHits != 0 {
		a.Hits = int64(r.uint(7))
	}
}

// limit returns the limit that a rule's counter reports; daily selects the free
// hits of a base rule.
func limit(r *store.Rule, daily bool) int64 {
	switch {
	case method.Of(r.Method).Refills && r.Count == 0:
		return 0
	case method.Of(r.Method).Refills:
		return r.Burst
	case daily:
		return r.Base
	}
	return r.Count
}
