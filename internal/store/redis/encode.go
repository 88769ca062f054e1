package redis

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// Call is one plan on its way to the script and back; lua/plan.lua describes
// its encoding. Its caller packs it, and a bundle carries it together with
// others.
//
// The call copies what a bundle needs of the plan, because a caller that times
// out may reuse its plan while the bundle still refers to the call.
type Call struct {
	// Slot is the slot of the call's keys in a Redis Cluster, 0 on a single server.
	// Calls of different slots never share a script call.
	Slot uint16
	// Asking sends ASKING before the call, for a node that is importing the slot.
	Asking bool

	plan  *store.Plan // for the caller only
	now   int64
	zone  *time.Location
	sets  int
	shape numbers // the plan without its keys
	names []name  // the keys: one per subject, and one per log of a leak rule
	keys  []keys  // one per rule, set by set
	texts []byte  // the texts of the names, concatenated
	// periods are the calendar units of the rules, each once.
	periods  []store.Period
	answer   outcome
	lookup   cacheLookup
	begin    string      // of the keys
	op       store.Op    // the plan's, or giveBack
	undo     []Undo      // one per rule, set by set; only of giveBack
	wants    bool        // undo records, and the answers of a browse
	bare     bool        // the logs are not named
	logs     bool        // a rule is a leak rule
	waits    bool        // a rule may wait, and the operation decides
	lasts    bool        // a refused take may write: a rule has an overdraft or a ban
	patience int64       // of the caller, in ms
	settles  bool        // a rule may have a part in a receipt
	frees    bool        // a settlement may make a rule admit more
	lease    store.Lease // only of leasePart
	receipting

	start, end time.Time // of the time that the caller has
	time       allowance // not used by the parts of a split plan
	delivery
}

// keys are the indices of a rule's keys among the names of its call.
type keys struct {
	subject int
	log     int // 0 except for leak, whose log is never the first; -1 if it is not named
}

// name is a key of Redis in a call.
type name struct {
	text   []byte
	end    int // of the text in the texts of the call
	hash   uint64
	log    bool
	number int // among the KEYS of the script call, from 1
}

// MarshalBinary returns the key for the client library, which would copy a
// string.
func (n *name) MarshalBinary() ([]byte, error) { return n.text, nil }

// String returns the key, for a client library that computes its slot.
func (n *name) String() string { return string(n.text) }

// Flags of sets and rules in a shape.
const (
	setRefund     = 1
	setAllows     = 2
	ruleShadow    = 1
	ruleAllows    = 2
	ruleOverdraft = 4
	ruleBans      = 8
	ruleWaits     = 16
	ruleSettles   = 32
	ruleOutcome   = 64
	ruleLeases    = 128
)

// nameSeed makes hash collisions of identities unpredictable for clients.
var nameSeed = maphash.MakeSeed()

// pack fills c for the plan, whose keys begin with begin. Takes make receipts in the
// slot of tag; none if that is empty.
func (c *Call) pack(begin, tag string, p *store.Plan) {
	c.plan, c.begin, c.op, c.undo, c.wants, c.bare = p, begin, p.Op, nil, false, false
	c.Slot, c.Asking = 0, false
	c.clear(tag)
	c.fill()
}

// WantUndo makes a take return undo records.
func (c *Call) WantUndo() {
	c.wants = true
	c.fill()
}

// WantsUndo reports whether the call returns undo records.
func (c *Call) WantsUndo() bool { return c.wants }

// GiveBack turns a take into a call that gives back by its undo records, one
// per rule. If the take made a receipt, under a tag, the call spends it, and gives nothing
// back if that is spent.
func (c *Call) GiveBack(list []Undo, tag, receipt string) {
	c.op, c.undo, c.tag, c.receipt = giveBack, list, tag, receipt
	c.fill()
}

// OmitLogs packs c again without naming the logs of leak counters, and reports
// whether there were any. The script answers an error for which NeedsLog is true
// if a counter has a log.
func (c *Call) OmitLogs() bool {
	if c.bare || !c.logs {
		return false
	}
	c.bare = true
	c.fill()
	return true
}

// NameLogs packs c again with the logs of leak counters, and reports whether
// they were omitted.
func (c *Call) NameLogs() bool {
	if !c.bare {
		return false
	}
	c.bare = false
	c.fill()
	return true
}

func (c *Call) fill() {
	p := c.plan
	c.now, c.zone, c.sets = p.Now, p.Zone, len(p.Sets)
	c.logs, c.settles, c.frees = false, false, false
	c.names, c.keys, c.texts, c.periods = c.names[:0], c.keys[:0], c.texts[:0], c.periods[:0]
	c.shape.reset()
	c.lasts, c.waits, c.patience = false, c.decides() && p.Waits(), p.Patience
	c.beginReceipt()
	c.shape.add(int64(c.op) | flag(c.wants, wantsUndo) | flag(c.waits, mayWait) | flag(c.kept, hasReceipt))
	c.shape.add(int64(len(p.Sets)))
	var before *store.Rule
	for i := range p.Sets {
		set := &p.Sets[i]
		c.shape.add(flag(set.Refund, setRefund) | flag(set.Allows, setAllows))
		c.shape.add(int64(len(set.Rules)))
		for j := range set.Rules {
			r := &set.Rules[j]
			c.rule(r)
			c.name(r, before)
			before = r
		}
	}
	c.nameReceipt()
	from := 0
	for i := range c.names { // texts does not move any more
		n := &c.names[i]
		n.text = c.texts[from:n.end]
		n.hash = maphash.Bytes(nameSeed, n.text)
		from = n.end
	}
}

// SubjectKeys yields the keys of the call's subjects. A log has the slot of its
// subject's key.
func (c *Call) SubjectKeys(yield func(key []byte) bool) {
	for i := range c.names {
		if !c.names[i].log && !yield(c.names[i].text) {
			return
		}
	}
}

// rule appends the numbers of a rule, in the order of lua/plan.lua.
func (c *Call) rule(r *store.Rule) {
	c.shape.add(r.Tag())
	c.shape.add(c.window(r))
	c.shape.add(r.Weight)
	switch {
	case !method.Of(r.Method).Refills:
		c.shape.add(r.Count)
		c.shape.add(r.Base)
	case r.Count == 0: // nothing fits, and what is below empty is refilled as by 1
		c.shape.add(1)
		c.shape.add(0)
	default:
		c.shape.add(r.Count)
		c.shape.add(r.Burst)
	}
	c.shape.add(flag(r.Shadow, ruleShadow) | flag(r.Allows, ruleAllows) |
		flag(r.Overdraft, ruleOverdraft) | flag(r.Ban > 0, ruleBans) | flag(r.Wait > 0, ruleWaits) |
		flag(r.Settles(), ruleSettles) | flag(r.Outcome, ruleOutcome) |
		flag(r.Lease > 0, ruleLeases))
	if r.Ban > 0 {
		c.shape.add(r.Ban * 1000)
	}
	if r.Wait > 0 {
		c.shape.add(r.Wait)
	}
	if r.Settles() {
		c.shape.add(r.ReceiptSpan())
		c.settles, c.frees = true, c.frees || !r.Outcome
	}
	if r.Lease > 0 {
		c.shape.add(r.Lease)
	}
	c.lasts = c.lasts || r.Overdraft || r.Ban > 0
}

// takes reports whether the call is a take.
func (c *Call) takes() bool { return c.op == store.Take || c.op == store.CompleteTake }

// decides reports whether the verdict of a rule matters to the call.
func (c *Call) decides() bool { return c.takes() || c.op == store.Browse || c.op == store.Complete }

// sinceEpoch marks, as the milliseconds beyond the whole seconds of a rule's time, windows
// that begin at whole multiples of that time.
const sinceEpoch = 999

// window returns the time of a rule in ms as lua/plan.lua describes it.
func (c *Call) window(r *store.Rule) int64 {
	period := r.Period()
	switch {
	case r.Unit == store.Epoch:
		return r.Time*1000 + sinceEpoch
	case period == store.Period{}:
		return r.Time * 1000
	}
	at := slices.Index(c.periods, period)
	if at < 0 {
		at = len(c.periods)
		c.periods = append(c.periods, period)
	}
	if method.Of(r.Method).FirstFree { // which has a second window, of seconds
		return r.Time*1000 + int64(at+1)
	}
	return int64(at + 1)
}

// name appends the names of a rule's keys. Rules of one subject usually follow
// each other; if they do not, the bundle finds the equal names.
func (c *Call) name(r, before *store.Rule) {
	var k keys
	if before != nil && bytes.Equal(before.Subject, r.Subject) {
		k.subject = c.keys[len(c.keys)-1].subject
	} else {
		k.subject = len(c.names)
		c.appendKey(r.Subject)
		c.names = append(c.names, name{end: len(c.texts)})
	}
	logs := method.Of(r.Method).Logged
	c.logs = c.logs || logs
	switch {
	case logs && c.bare:
		k.log = -1
	case logs:
		k.log = len(c.names)
		c.appendKey(r.Subject)
		c.texts = strconv.AppendInt(append(c.texts, ':'), r.Tag(), 10)
		c.names = append(c.names, name{end: len(c.texts), log: true})
	}
	c.keys = append(c.keys, k)
}

func flag(set bool, bit int64) int64 {
	if set {
		return bit
	}
	return 0
}

// Time returns when the call began and when it must end.
func (c *Call) Time() (start, end time.Time) { return c.start, c.end }
