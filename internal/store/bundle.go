package store

import (
	"bytes"
	"encoding/binary"
	"time"
)

// bundle is one call of the script, which carries out the calls of many
// callers as if they came one after the other. It names each key once, and each
// shape: most calls differ in their keys alone.
type bundle struct {
	calls  []*call
	rules  int
	counts bool
	names  []*name // of the subjects, then of the logs
	first  int     // how many of them are subjects
	slots  []*name // the names by their hashes; as many places as a power of two
	shapes []form
	zones  []days
	body   numbers // the requests
	blob   numbers // the argument
	args   []any
	again  bool // it is made with the script's text
}

// form is a call whose shape is that of others in the bundle.
type form struct {
	of   *call
	zone int // from 1; 0 without
}

// takes tells whether one more call can go in the bundle: the script has one
// clock, on a Cluster one slot, and is not to keep Redis for long.
func (b *bundle) takes(c *call) bool {
	return len(b.calls) == 0 ||
		b.calls[0].now == c.now && b.calls[0].slot == c.slot && b.calls[0].asking == c.asking && len(b.calls) < maxBatch && b.rules+len(c.keys) <= maxBatchRules
}

func (b *bundle) add(c *call) {
	b.calls = append(b.calls, c)
	b.rules += len(c.keys)
}

// empty makes b ready for other calls, and keeps its memory.
func (b *bundle) empty() {
	clear(b.calls)
	clear(b.names)
	clear(b.shapes)
	clear(b.args)
	b.calls, b.names, b.shapes, b.args = b.calls[:0], b.names[:0], b.shapes[:0], b.args[:0]
	b.rules, b.again = 0, false
}

// fail ends every call of the bundle.
func (b *bundle) fail(err error) {
	for _, c := range b.calls {
		c.end(err)
	}
}

// pack makes the script's argument. shortcut is whether calls that only count go
// the short way; linger is in ms; daysOf knows the days that the script may choose
// from for a plan of a zone and a clock.
func (b *bundle) pack(shortcut bool, linger int64, daysOf func(*time.Location, int64) days) {
	b.counts = shortcut
	b.index()
	b.zones, b.shapes = b.zones[:0], b.shapes[:0]
	b.body.reset()
	for _, c := range b.calls {
		b.request(c, daysOf)
	}
	head := &b.blob
	head.reset()
	head.bytes = append(head.bytes, 0xdd, 0, 0, 0, 0) // an array of so many numbers
	head.add(b.calls[0].now)
	head.add(linger)
	head.add(flag(b.counts, 1))
	head.add(int64(b.first))
	head.add(int64(len(b.zones)))
	head.add(int64(len(b.shapes)))
	head.add(int64(len(b.calls)))
	for i := range b.zones {
		for _, begin := range b.zones[i].begins {
			head.add(max(begin, 0)) // before the epoch there are only tests
		}
	}
	for i := range b.shapes {
		head.add(int64(b.shapes[i].zone))
		head.addAll(&b.shapes[i].of.shape)
	}
	head.addAll(&b.body)
	binary.BigEndian.PutUint32(head.bytes[1:], uint32(head.count))
}

// request appends a call's shape and keys.
func (b *bundle) request(c *call, daysOf func(*time.Location, int64) days) {
	zone := 0
	if c.daily {
		zone = b.zone(daysOf(c.zone, c.now))
	}
	b.body.add(int64(b.shape(c, zone)))
	for i := range c.keys {
		k := &c.keys[i]
		b.body.add(int64(c.names[k.subject].number))
		switch {
		case k.log > 0:
			b.body.add(int64(c.names[k.log].number))
		case k.log < 0:
			b.body.add(0)
		}
		if c.op == giveBack {
			c.back[i].pack(&b.body)
		}
	}
}

// zone is the number of a zone's days, from 1.
func (b *bundle) zone(d days) int {
	for i := range b.zones {
		if b.zones[i] == d {
			return i + 1
		}
	}
	b.zones = append(b.zones, d)
	return len(b.zones)
}

// shape is the number of the call's shape, from 1.
func (b *bundle) shape(c *call, zone int) int {
	for i := range b.shapes {
		if s := &b.shapes[i]; s.zone == zone && bytes.Equal(s.of.shape.bytes, c.shape.bytes) {
			return i + 1
		}
	}
	b.shapes = append(b.shapes, form{c, zone})
	return len(b.shapes)
}

// index numbers the keys: those of the subjects first, and equal ones alike.
func (b *bundle) index() {
	total := 0
	for _, c := range b.calls {
		total += len(c.names)
		b.counts = b.counts && c.counts
	}
	places := 8
	for places < 2*total {
		places *= 2
	}
	if cap(b.slots) < places {
		b.slots = make([]*name, places)
	}
	b.slots = b.slots[:places]
	clear(b.slots)
	b.names = b.names[:0]
	b.number(false)
	b.first = len(b.names)
	b.number(true)
}

// number numbers the names of logs, or the other ones.
func (b *bundle) number(logs bool) {
	mask := uint64(len(b.slots) - 1)
	for _, c := range b.calls {
		for i := range c.names {
			n := &c.names[i]
			if n.log != logs {
				continue
			}
			at := n.hash & mask
			for b.slots[at] != nil && !bytes.Equal(b.slots[at].text, n.text) {
				at = (at + 1) & mask
			}
			if same := b.slots[at]; same != nil {
				n.number = same.number
				continue
			}
			b.names = append(b.names, n)
			b.slots[at], n.number = n, len(b.names)
		}
	}
}

// command is the script call's words, behind its name and the script's.
func (b *bundle) command(name, script string) []any {
	b.args = append(b.args[:0], name, script, len(b.names))
	for _, n := range b.names {
		b.args = append(b.args, n)
	}
	b.args = append(b.args, &b.blob)
	return b.args
}
