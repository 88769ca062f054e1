package store

import (
	"context"
	"errors"
	"time"
)

// Key is the key of a subject.
func Key(prefix, subject string) string {
	return string(appendKey(nil, keyBegin(prefix, false), []byte(subject)))
}

// FixedKey is the key of a subject where all keys have one tag.
func FixedKey(prefix, subject string) string {
	return string(appendKey(nil, keyBegin(prefix, true), []byte(subject)))
}

// SetSkew makes r believe that Redis's clock is that far ahead, in ms.
func (r *Redis) SetSkew(ms int64) { r.skew.Store(ms) }

// Skew is what r believes.
func (r *Redis) Skew() int64 { return r.skew.Load() }

// SetRefusalClock has r's memory of refusals go by that clock, in ms.
func (r *Redis) SetRefusalClock(clock func() int64) { r.refusals.clock = clock }

// SetStages has each stage of a return to Redis end when stage, which is called
// at its begin, says so. It is for a Rescue whose Redis was never away.
func (r *Rescue) SetStages(stage func() <-chan time.Time) { r.stage = stage }

// Deadline is when a call that begins then has to be over.
func (r *Redis) Deadline(ctx context.Context, begin time.Time) time.Time {
	return r.deadline(ctx, begin)
}

// Prefix begins r's keys.
func (r *Redis) Prefix() string { return r.prefix }

// EvaluateTogether carries out plans of one clock in their order, as if that
// many callers had gathered: in one script call, or in a round trip of as many,
// or one after the other, as r does it.
func (r *Redis) EvaluateTogether(plans []*Plan, answers []Answers) error {
	return errors.Join(r.EvaluateEach(plans, answers)...)
}

// EvaluateEach does the same, and returns the error of each plan.
func (r *Redis) EvaluateEach(plans []*Plan, answers []Answers) []error {
	if r.refusals != nil {
		defer r.refusals.forget()
	}
	var calls []*call
	for _, p := range plans {
		c := new(call)
		c.done = make(chan struct{}, 1)
		c.pack(r.begin, p)
		calls = append(calls, c)
	}
	bundles := r.batches.bundle(nil, calls)
	switch {
	case r.batches.batching == BatchScript && len(bundles) > 1:
		return []error{errors.New("these plans do not go in one script call")}
	case r.batches.batching == BatchOff:
		for _, b := range bundles {
			r.exchange(context.Background(), r.client, []*bundle{b})
		}
	default:
		r.exchange(context.Background(), r.client, bundles)
	}
	faults := make([]error, len(calls))
	for i, c := range calls {
		<-c.done
		answers[i].reset(len(plans[i].Sets))
		if faults[i] = c.err; c.err == nil {
			faults[i] = c.read(plans[i], &answers[i])
		}
	}
	return faults
}

// Settle waits until what was taken in vain is given back.
func (r *Redis) Settle() { r.nodes.backing.Wait() }

// SlotOf is the slot of a key.
func SlotOf(key string) int { return int(slotOf([]byte(key))) }

// Receipts are those of a part of a take.
type Receipts struct{ part *part }

// TakeApart takes as one slot's part of a larger take does, and returns what
// gives it back; nil if it was refused.
func (r *Redis) TakeApart(ctx context.Context, p *Plan) (*Receipts, error) {
	c := new(call)
	c.pack(r.begin, p)
	c.askReceipts()
	c.inOneSlot()
	one := &part{plan: *p, slot: c.slot}
	if _, err := r.carryOut(ctx, c); err != nil {
		return nil, err
	}
	if one.receipts, one.err = c.readTaken(&one.looked, &one.answers); one.err != nil || one.receipts == nil {
		return nil, one.err
	}
	return &Receipts{one}, nil
}

// GiveBack gives back what was taken, by a clock.
func (r *Redis) GiveBack(ctx context.Context, taken *Receipts, now int64) error {
	p := taken.part.plan
	p.Now = now
	c := new(call)
	c.pack(r.begin, &p)
	c.giveBack(taken.part.receipts)
	_, err := r.carryOut(ctx, c)
	return err
}

// GiveBackLater gives back what was taken as a refused take does.
func (r *Redis) GiveBackLater(taken *Receipts) { r.giveBack([]*part{taken.part}) }

// ManyGivingBack has r believe that as much is being given back as may be.
func (r *Redis) ManyGivingBack() (end func()) {
	r.givingBack.Add(maxGivingBack)
	return func() { r.givingBack.Add(-maxGivingBack) }
}

// Window is when the window closes that a count or base rule's limit is about,
// and what was counted in it; 0 where nothing was.
func (t *Receipts) Window(m Method) (end, hits int64) {
	r := t.part.receipts[0]
	switch {
	case r.flags == 0:
		return 0, 0
	case m == Base:
		return r.c, r.b
	}
	return r.a, t.part.plan.Sets[0].Rules[0].Weight
}

// TooOld tells whether a version of Redis is below the least.
func TooOld(version string) bool { return tooOld(version) }

// KnownNodes are the addresses of the nodes that r keeps.
func (r *Redis) KnownNodes() (list []string) {
	for _, n := range r.nodes.all() {
		list = append(list, n.addr)
	}
	return list
}

// ForgetNames has the nodes seem not to have been told of for long.
func (r *Redis) ForgetNames() {
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	for _, n := range r.nodes.known {
		n.named = time.Time{}
	}
}

// CountPath are the words of a call that has the script take a plan on its count
// path; in place of the general way it answers with a text.
func CountPath(prefix string, p *Plan, general string) []any {
	b, c := new(bundle), new(call)
	c.pack(keyBegin(prefix, false), p)
	b.add(c)
	b.pack(true, 1000, func(*time.Location, int64) days { return days{} })
	return b.command("eval", luaPlan+luaSeveral+luaCounts+"return '"+general+"'")
}

// GivingBack is how many parts are being given back.
func (r *Redis) GivingBack() int64 { return r.givingBack.Load() }
