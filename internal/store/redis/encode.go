package redis

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

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
	ruleMarks     = 256
)

// nameSeed makes hash collisions of identities unpredictable for clients.
var nameSeed = maphash.MakeSeed()

// pack fills c for the plan, whose keys begin with begin. Takes make receipts in the
// slot of tag; none if that is empty.
func (c *Call) pack(begin, tag string, p *store.Plan) {
	c.plan, c.begin, c.op, c.undo, c.wants, c.tentative, c.bare = p, begin, p.Op, nil, false, false, false
	c.Slot, c.Asking = 0, false
	c.clear(tag)
	c.fill()
}

func (c *Call) fill() {
	p := c.plan
	c.now, c.zone, c.sets = p.Now, p.Zone, len(p.Sets)
	c.logs, c.settles, c.frees = false, false, false
	c.names, c.keys, c.texts, c.periods = c.names[:0], c.keys[:0], c.texts[:0], c.periods[:0]
	c.shape.reset()
	c.lasts, c.waits, c.patience = false, c.decides() && p.Waits(), p.Patience
	c.beginReceipt()
	c.shape.add(int64(c.op) | flag(c.wants, wantsUndo) | flag(c.waits, mayWait) | flag(c.kept, hasReceipt) | flag(c.tentative, leavesNothing))
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

// beginReceipt decides whether the call has a receipt.
func (c *Call) beginReceipt() {
	switch {
	case c.takes():
		if c.kept = c.tag != "" && c.plan.Settles(); !c.kept {
			return
		}
		if c.receipt == "" {
			c.receipt = store.NewReceipt(store.KeptInRedis)
		}
		c.describe()
	default:
		c.kept = c.receipt != "" && c.tag != ""
	}
}

// nameReceipt appends the name of the receipt's key. Only existing receipts are read.
func (c *Call) nameReceipt() {
	if !c.kept {
		return
	}
	c.texts = append(append(append(append(c.texts, c.begin...), '{'), c.tag...), '}')
	c.texts = append(c.texts, idOf(c.receipt)...)
	c.key = len(c.names)
	c.names = append(c.names, name{end: len(c.texts), log: c.takes()})
}

// idOf returns the part of a receipt that names its key.
func idOf(receipt string) string { return receipt[1:min(len(receipt), receiptLength)] }

// receiptLength is the length of a receipt's text without what a Cluster appends.
const receiptLength = 23

// appendKey appends the key of a subject.
func (c *Call) appendKey(subject []byte) {
	if c.literal {
		c.texts = append(append(append(append(c.texts, c.begin...), '{'), subject...), '}')
		return
	}
	c.texts = appendKey(c.texts, c.begin, subject)
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
		flag(r.Lease > 0, ruleLeases) | flag(r.Marked, ruleMarks))
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

// sinceEpoch is added to the time of a rule, in ms, if its windows begin at multiples of that
// time. Times are whole seconds, so that their last three digits are free.
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

// numbers is a sequence of msgpack integers.
type numbers struct {
	bytes []byte
	count int
}

// MarshalBinary returns the encoded numbers for the client library.
func (n *numbers) MarshalBinary() ([]byte, error) { return n.bytes, nil }

func (n *numbers) reset() { n.bytes, n.count = n.bytes[:0], 0 }

// add appends a nonnegative integer.
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

// A key in Redis is PREFIX:2:{S}, and PREFIX:2:{S}:TAG for the log of a leak
// counter. 2 is the layout. The braces make a Redis Cluster keep all keys of a
// subject in one slot. With a fixed tag a key is PREFIX:2:{*PREFIX}{S}, which puts
// all keys into one slot.
const (
	// DefaultPrefix is the default prefix of every key.
	DefaultPrefix = "koala"
	// MaxPrefix is the largest length of a prefix, in bytes.
	MaxPrefix = 64
	// MaxKey is the largest length of a key with its prefix, in bytes.
	MaxKey = 256

	// layout is the version of keys and values, which lua/plan.lua has, too.
	layout = 2

	// maxSubject is the largest length of S, in bytes, unless S is a hash. It
	// keeps common identities legible: two UUIDs still fit. Within MaxKey it
	// leaves space for any prefix and a tag, but not for a long prefix twice, as
	// keys with a fixed tag contain it: then S is shorter.
	maxSubject = 128
	// aroundSubject is the length of the rest of a key, besides its beginning and
	// S: the braces, and the longest tag of a log.
	aroundSubject = len("{}") + len(":17179869183")
)

// checkPrefix returns an error if the prefix is invalid. Braces would change the
// hash tag, and blanks or unprintable bytes make the keys hard to find.
func checkPrefix(prefix string) error {
	if prefix == "" || len(prefix) > MaxPrefix {
		return fmt.Errorf("redis prefix %q: %d bytes; want 1 … %d", prefix, len(prefix), MaxPrefix)
	}
	for i := range len(prefix) {
		if c := prefix[i]; c <= ' ' || c > '~' || c == '{' || c == '}' {
			return fmt.Errorf("redis prefix %q: byte %d is %q; want printable ASCII without blanks and braces", prefix, i, c)
		}
	}
	return nil
}

// keyBegin returns the beginning of all keys of a prefix, and of a space or "". A fixed
// tag puts them into one slot: Redis Cluster hashes the content of the first braces. The
// keys of a subject have one slot in all spaces.
func keyBegin(prefix, space string, fixed bool) string {
	begin := fmt.Sprintf("%s:%d:", spaced(prefix, space), layout)
	if fixed {
		return begin + "{*" + prefix + "}"
	}
	return begin
}

// spaced returns the prefix of the keys of a space.
func spaced(prefix, space string) string {
	if space == "" {
		return prefix
	}
	return prefix + ":" + space
}

// appendKey appends the key of a subject.
func appendKey(b []byte, begin string, subject []byte) []byte {
	b = append(b, begin...)
	b = append(b, '{')
	b = appendSubject(b, subject, subjectRoom(begin))
	return append(b, '}')
}

// subjectRoom returns the largest length of S in keys that begin with begin.
func subjectRoom(begin string) int { return min(maxSubject, MaxKey-aroundSubject-len(begin)) }

// literalSubject reports whether a text is an S.
func literalSubject(text []byte) bool {
	for _, c := range text {
		if !plain(c) && c != '%' && c != '#' {
			return false
		}
	}
	return len(text) > 0
}

// appendSubject appends S: the subject with special bytes as %XX if that has at
// most that many bytes, else # and the first 128 bits of its SHA-256. Both are
// printable, and no two subjects share one, because # itself is a special byte.
func appendSubject(b, subject []byte, most int) []byte {
	begin := len(b)
	if len(subject) == 0 {
		return append(b, '#') // Redis Cluster ignores empty braces
	}
	for _, c := range subject {
		if len(b)-begin > most {
			break
		}
		if plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	if len(b)-begin <= most {
		return b
	}
	sum := sha256.Sum256(subject)
	return hex.AppendEncode(append(b[:begin], '#'), sum[:16])
}

const digits = "0123456789ABCDEF"

// plain reports whether a byte appears unescaped in a key.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '-', '_', '.', ':', '/', '@', '+', ',', '=':
		return true
	}
	return false
}
