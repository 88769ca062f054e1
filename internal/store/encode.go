package store

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"strconv"
	"time"
)

// call is one plan on its way to the script and back: its part of what is
// described there. Its caller packs it, and it goes in a bundle with others.
//
// What the bundle needs of the plan is copied: a caller whose time is over takes
// its plan along, and the bundle may still hold the call.
type call struct {
	plan   *Plan // for the caller alone
	now    int64
	zone   *time.Location
	sets   int
	shape  numbers // the plan without its keys
	names  []name  // of the keys: of each subject, and of the log of each leak rule
	keys   []keys  // one a rule, set by set
	texts  []byte  // those of the names, one behind the other
	daily  bool    // a rule asks for the calendar
	counts bool    // it takes, on count rules alone
	answer outcome
	known  known
	begin  string    // of the keys
	op     Op        // what the script is asked for: the plan's, or giveBack
	back   []receipt // one a rule, set by set; of giveBack
	wants  bool      // receipts, and what a look would have answered
	bare   bool      // the logs are not named
	logs   bool      // there is a leak rule
	slot   uint16    // of a Cluster
	asking bool      // the slot is on its way to the node
	time   allowance // of a call that is not sent in parts
	delivery
}

// keys are where a rule's keys are among its call's names.
type keys struct {
	subject int
	log     int // 0 but for leak, whose log is never the first; -1 if it is not named
}

// name is a key of Redis on its way there.
type name struct {
	text   []byte
	end    int // of the text among its call's
	hash   uint64
	log    bool
	number int // among the KEYS of the script call, from 1
}

// MarshalBinary hands the key to the Redis client as it is: a string would be
// copied.
func (n *name) MarshalBinary() ([]byte, error) { return n.text, nil }

// String is the key, for a client that looks for its slot.
func (n *name) String() string { return string(n.text) }

// numbers are msgpack integers, one behind the other.
type numbers struct {
	bytes []byte
	count int
}

// MarshalBinary hands the numbers to the Redis client as they are.
func (n *numbers) MarshalBinary() ([]byte, error) { return n.bytes, nil }

// flags of sets and rules in a shape.
const (
	setRefund  = 1
	setAllows  = 2
	ruleShadow = 1
	ruleAllows = 2
)

// nameSeed keeps callers from choosing identities whose hashes meet.
var nameSeed = maphash.MakeSeed()

// pack fills c for the plan, whose keys begin with begin.
func (c *call) pack(begin string, p *Plan) {
	c.plan, c.begin, c.op, c.back, c.wants, c.bare = p, begin, p.Op, nil, false, false
	c.fill()
}

// askReceipts makes a take one that may be given back.
func (c *call) askReceipts() {
	c.wants = true
	c.fill()
}

// giveBack makes of a take one that gives back what it counted.
func (c *call) giveBack(list []receipt) {
	c.op, c.back = giveBack, list
	c.fill()
}

// repack fills c anew, with the logs of leak counters or without.
func (c *call) repack(bare bool) {
	c.bare = bare
	c.fill()
}

func (c *call) fill() {
	p := c.plan
	c.now, c.zone, c.sets = p.Now, p.Zone, len(p.Sets)
	c.daily, c.logs, c.counts = false, false, c.op == Take && !c.wants
	c.names, c.keys, c.texts = c.names[:0], c.keys[:0], c.texts[:0]
	c.shape.reset()
	if c.wants {
		c.shape.add(int64(c.op) + wantsReceipts)
	} else {
		c.shape.add(int64(c.op))
	}
	c.shape.add(int64(len(p.Sets)))
	var before *Rule
	for i := range p.Sets {
		set := &p.Sets[i]
		c.counts = c.counts && !set.Refund
		c.shape.add(flag(set.Refund, setRefund) | flag(set.Allows, setAllows))
		c.shape.add(int64(len(set.Rules)))
		for j := range set.Rules {
			r := &set.Rules[j]
			c.rule(r)
			c.name(r, before)
			before = r
		}
	}
	from := 0
	for i := range c.names { // texts moves no more
		n := &c.names[i]
		n.text = c.texts[from:n.end]
		n.hash = maphash.Bytes(nameSeed, n.text)
		from = n.end
	}
}

// inOneSlot notes the slot of the call's keys, and tells whether all have it.
func (c *call) inOneSlot() bool {
	c.slot = 0
	for i := range c.names {
		if c.names[i].log {
			continue // it is that of its subject
		}
		slot := slotOf(c.names[i].text)
		if i > 0 && slot != c.slot {
			return false
		}
		c.slot = slot
	}
	return true
}

// rule appends the numbers of a rule, in the order of lua/plan.lua.
func (c *call) rule(r *Rule) {
	c.daily = c.daily || r.daily()
	c.counts = c.counts && r.Method == Count
	c.shape.add(r.tag())
	if r.Method == Count && r.Time == Day {
		c.shape.add(0)
	} else {
		c.shape.add(r.Time * 1000)
	}
	c.shape.add(r.Weight)
	c.shape.add(r.Count)
	if r.Method == Token {
		c.shape.add(r.Burst)
	} else {
		c.shape.add(r.Base)
	}
	c.shape.add(flag(r.Shadow, ruleShadow) | flag(r.Allows, ruleAllows))
}

// name appends the names of a rule's keys. Rules of one subject follow each
// other as a rule; where they do not, the bundle sees that names are the same.
func (c *call) name(r, before *Rule) {
	var k keys
	if before != nil && bytes.Equal(before.Subject, r.Subject) {
		k.subject = c.keys[len(c.keys)-1].subject
	} else {
		k.subject = len(c.names)
		c.texts = appendKey(c.texts, c.begin, r.Subject)
		c.names = append(c.names, name{end: len(c.texts)})
	}
	c.logs = c.logs || r.Method == Leak
	switch {
	case r.Method == Leak && c.bare:
		k.log = -1
	case r.Method == Leak:
		k.log = len(c.names)
		c.texts = appendKey(c.texts, c.begin, r.Subject)
		c.texts = strconv.AppendInt(append(c.texts, ':'), r.tag(), 10)
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

func (n *numbers) reset() { n.bytes, n.count = n.bytes[:0], 0 }

// add appends a msgpack integer that is not negative.
func (n *numbers) add(i int64) {
	n.count++
	switch {
	case i < 1<<7:
		n.bytes = append(n.bytes, byte(i))
	case i < 1<<16:
		n.bytes = binary.BigEndian.AppendUint16(append(n.bytes, 0xcd), uint16(i))
	case i < 1<<32:
		n.bytes = binary.BigEndian.AppendUint32(append(n.bytes, 0xce), uint32(i))
	default:
		n.bytes = binary.BigEndian.AppendUint64(append(n.bytes, 0xcf), uint64(i))
	}
}

// addAll appends other numbers.
func (n *numbers) addAll(other *numbers) {
	n.bytes, n.count = append(n.bytes, other.bytes...), n.count+other.count
}
