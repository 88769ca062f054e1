package redis

import (
	"bytes"
	"encoding/binary"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
)

// bundle is one call of the script. It carries the calls of many callers, which
// the script carries out one after the other. It contains each key once and each
// shape once: most calls differ in their keys alone.
type bundle struct {
	calls  []*Call
	rules  int
	names  []*name // of the subjects, then of the logs
	first  int     // the number of the subjects' keys
	table  []*name // hash table of the names; its length is a power of two
	shapes []form
	spans  []store.Span
	uses   []int   // the numbers of the spans of the forms, in turn
	body   numbers // the requests
	texts  []any   // the descriptions of receipts
	blob   numbers // the argument
	args   []any

	sent    *goredis.Cmd // the command of the last round trip
	again   bool         // it is sent again, with the text of the script
	spanned int          // the number of replies that wanted other spans
	clock   int64        // of Redis, in the last of them
	replied bool         // Redis replied to it, if only with an error
	written bool         // a connection took its command, if only a part of it
}

// form is a shape of the bundle, represented by the first call that has it.
type form struct {
	of    *Call
	spans []int // the number of the span of each of its periods, from 1
}

// fits reports whether one more call fits into the bundle: a script call has one
// clock, in a Cluster one slot, and must not occupy Redis for long.
func (b *bundle) fits(c *Call) bool {
	return len(b.calls) == 0 ||
		b.calls[0].now == c.now && b.calls[0].Slot == c.Slot && b.calls[0].Asking == c.Asking && len(b.calls) < maxBatch && b.rules+len(c.keys) <= maxBatchRules
}

func (b *bundle) add(c *Call) {
	b.calls = append(b.calls, c)
	b.rules += len(c.keys)
}

// empty prepares b for other calls and keeps its memory.
func (b *bundle) empty() {
	clear(b.calls)
	clear(b.names)
	clear(b.shapes)
	clear(b.args)
	clear(b.texts)
	b.calls, b.names, b.shapes, b.args, b.texts = b.calls[:0], b.names[:0], b.shapes[:0], b.args[:0], b.texts[:0]
	b.sent, b.rules, b.spanned = nil, 0, 0
	b.again, b.replied, b.written = false, false, false
}

// fail ends every call of the bundle with err.
func (b *bundle) fail(err error) {
	for _, c := range b.calls {
		c.finish(err)
	}
}

// pack encodes the script's argument for the calls of an Evaluator.
func (b *bundle) pack(e *Evaluator) {
	b.index()
	b.spans, b.uses, b.shapes, b.texts = b.spans[:0], b.uses[:0], b.shapes[:0], b.texts[:0]
	b.body.reset()
	for _, c := range b.calls {
		b.request(c, e)
	}
	head := &b.blob
	head.reset()
	head.bytes = append(head.bytes, 0xdd, 0, 0, 0, 0) // an array; its length follows below
	head.add(b.calls[0].now)
	head.add(e.linger)
	head.add(int64(b.first))
	head.add(int64(len(b.spans)))
	head.add(int64(len(b.shapes)))
	head.add(int64(len(b.calls)))
	for i := range b.spans {
		for _, begin := range b.spans[i].Begins {
			head.add(max(begin, 0)) // only tests use instants before the epoch
		}
	}
	for i := range b.shapes {
		head.add(int64(len(b.shapes[i].spans)))
		for _, number := range b.shapes[i].spans {
			head.add(int64(number))
		}
		head.addAll(&b.shapes[i].of.shape)
	}
	head.addAll(&b.body)
	binary.BigEndian.PutUint32(head.bytes[1:], uint32(head.count))
}

// request appends a call's shape and keys.
func (b *bundle) request(c *Call, e *Evaluator) {
	from := len(b.uses)
	for _, period := range c.periods {
		b.uses = append(b.uses, b.span(e.span(c.zone, period, c.now)))
	}
	number, known := b.shape(c, b.uses[from:len(b.uses):len(b.uses)])
	if known {
		b.uses = b.uses[:from]
	}
	b.body.add(int64(number))
	if c.waits {
		b.body.add(c.patience)
	}
	if c.kept {
		b.body.add(int64(c.names[c.key].number))
		if c.takes() {
			b.texts = append(b.texts, &c.description)
			b.body.add(int64(1 + len(b.texts)))
		}
	}
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
			c.undo[i].pack(&b.body)
		}
		if len(c.uses) > 0 {
			c.uses[i].pack(&b.body, c.op)
		}
		if c.op == leasePart {
			packLease(&b.body, &c.lease)
		}
		if c.op == assignShares {
			c.usage.pack(&b.body)
		}
	}
}

// span returns the number of a span in the bundle, from 1.
func (b *bundle) span(s store.Span) int {
	if i := slices.Index(b.spans, s); i >= 0 {
		return i + 1
	}
	b.spans = append(b.spans, s)
	return len(b.spans)
}

// shape returns the number of the call's shape with these spans in the bundle,
// from 1, and whether an earlier call has it, too.
func (b *bundle) shape(c *Call, spans []int) (number int, known bool) {
	for i := range b.shapes {
		if s := &b.shapes[i]; slices.Equal(s.spans, spans) && bytes.Equal(s.of.shape.bytes, c.shape.bytes) {
			return i + 1, true
		}
	}
	b.shapes = append(b.shapes, form{c, spans})
	return len(b.shapes), false
}

// index numbers the keys, the subjects' first. Equal keys get one number.
func (b *bundle) index() {
	total := 0
	for _, c := range b.calls {
		total += len(c.names)
	}
	size := 8
	for size < 2*total {
		size *= 2
	}
	if cap(b.table) < size {
		b.table = make([]*name, size)
	}
	b.table = b.table[:size]
	clear(b.table)
	b.names = b.names[:0]
	b.number(false)
	b.first = len(b.names)
	b.number(true)
}

// number numbers the names of logs, or of subjects.
func (b *bundle) number(logs bool) {
	mask := uint64(len(b.table) - 1)
	for _, c := range b.calls {
		for i := range c.names {
			n := &c.names[i]
			if n.log != logs {
				continue
			}
			at := n.hash & mask
			for b.table[at] != nil && !bytes.Equal(b.table[at].text, n.text) {
				at = (at + 1) & mask
			}
			if same := b.table[at]; same != nil {
				n.number = same.number
				continue
			}
			b.names = append(b.names, n)
			b.table[at], n.number = n, len(b.names)
		}
	}
}

// command returns the arguments of a command that calls the script: name is EVAL
// with the text of the script, or EVALSHA with its hash.
func (b *bundle) command(name, script string) []any {
	b.args = append(b.args[:0], name, script, len(b.names))
	for _, n := range b.names {
		b.args = append(b.args, n)
	}
	b.args = append(append(b.args, (*argument)(b)), b.texts...)
	return b.args
}
