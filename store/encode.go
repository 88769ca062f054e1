package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
)

// call is one plan on its way to evaluate.lua and back: the keys, the numbers
// and the reply that are described there.
type call struct {
	plan     *Plan
	subjects [][]byte // each once; keys begins with theirs
	keys     []string
	damaged  []int          // of the reply: the keys whose values are no counters, from 1
	places   map[string]int // where in keys a subject's key is, from 1, beyond fewSubjects
	logs     map[log]int    // where in keys a log's key is, from 1
	count    int            // of the plan's rules
	blob     []byte
	delivery
}

// rules is how many counters the call's plan asks for.
func (c *call) rules() int { return c.count }

// log names the log of a leak counter.
type log struct {
	subject int // from 1
	tag     int64
}

// flags of sets and rules in the blob.
const (
	setRefund  = 1
	setAllows  = 2
	ruleShadow = 1
	ruleAllows = 2
)

// pack fills c for the plan. begins are the days that the script may choose
// from; nil if no rule asks for them.
func (c *call) pack(prefix string, p *Plan, begins []int64) {
	c.plan, c.count = p, 0
	c.subjects, c.keys, c.blob = c.subjects[:0], c.keys[:0], c.blob[:0]
	clear(c.logs)
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			c.addSubject(prefix, p.Sets[i].Rules[j].Subject)
		}
	}
	c.array(c.numbers(len(begins)))
	c.int(p.Now)
	c.int(int64(p.Op))
	c.int(int64(len(c.subjects)))
	c.int(int64(len(begins)))
	for _, b := range begins {
		c.int(max(b, 0)) // before the epoch there are only tests
	}
	c.int(int64(len(p.Sets)))
	for i := range p.Sets {
		set := &p.Sets[i]
		c.int(flag(set.Refund, setRefund) | flag(set.Allows, setAllows))
		c.int(int64(len(set.Rules)))
		c.count += len(set.Rules)
		for j := range set.Rules {
			c.rule(&set.Rules[j])
		}
	}
}

// numbers is how many integers the blob has.
func (c *call) numbers(days int) int {
	n := 5 + days
	for i := range c.plan.Sets {
		n += 2 + 8*len(c.plan.Sets[i].Rules)
	}
	return n
}

// rule appends the numbers of a rule, in the order of evaluate.lua.
func (c *call) rule(r *Rule) {
	subject := c.subject(r.Subject)
	c.int(int64(subject))
	c.int(int64(c.log(subject, r)))
	c.int(r.tag())
	c.int(r.Weight)
	if r.Method == Count && r.Time == Day {
		c.int(0)
	} else {
		c.int(r.Time * 1000)
	}
	c.int(r.Count)
	if r.Method == Token {
		c.int(r.Burst)
	} else {
		c.int(r.Base)
	}
	c.int(flag(r.Shadow, ruleShadow) | flag(r.Allows, ruleAllows))
}

// fewSubjects is up to how many subjects a look through all of them is quicker
// than a map.
const fewSubjects = 16

// subject is where the subject's key is, from 1; 0 if it has none yet.
func (c *call) subject(subject []byte) int {
	if len(c.subjects) > fewSubjects {
		return c.places[string(subject)]
	}
	return 1 + slices.IndexFunc(c.subjects, func(s []byte) bool { return string(s) == string(subject) })
}

func (c *call) addSubject(prefix string, subject []byte) {
	if c.subject(subject) != 0 {
		return
	}
	c.subjects = append(c.subjects, subject)
	c.keys = append(c.keys, string(appendKey(nil, prefix, subject)))
	switch n := len(c.subjects); {
	case n == fewSubjects+1:
		c.places = make(map[string]int, 2*n)
		for i, s := range c.subjects {
			c.places[string(s)] = i + 1
		}
	case n > fewSubjects:
		c.places[string(subject)] = n
	}
}

// log is where the key of the rule's log is, from 1; 0 but for leak.
func (c *call) log(subject int, r *Rule) int {
	if r.Method != Leak {
		return 0
	}
	name := log{subject, r.tag()}
	if at, known := c.logs[name]; known {
		return at
	}
	c.keys = append(c.keys, c.keys[subject-1]+":"+strconv.FormatInt(name.tag, 10))
	if c.logs == nil {
		c.logs = make(map[log]int)
	}
	c.logs[name] = len(c.keys)
	return len(c.keys)
}

func flag(set bool, bit int64) int64 {
	if set {
		return bit
	}
	return 0
}

// array appends the head of a msgpack array.
func (c *call) array(n int) {
	c.blob = binary.BigEndian.AppendUint32(append(c.blob, 0xdd), uint32(n))
}

// int appends a msgpack integer that is not negative.
func (c *call) int(n int64) {
	switch {
	case n < 1<<7:
		c.blob = append(c.blob, byte(n))
	case n < 1<<16:
		c.blob = binary.BigEndian.AppendUint16(append(c.blob, 0xcd), uint16(n))
	case n < 1<<32:
		c.blob = binary.BigEndian.AppendUint32(append(c.blob, 0xce), uint32(n))
	default:
		c.blob = binary.BigEndian.AppendUint64(append(c.blob, 0xcf), uint64(n))
	}
}

var errReply = errors.New("redis: the reply of the script is damaged")

// reply reads the script's answer to the plan into a. Where fits is false no
// day that was sent fits the script's clock, which a.Now then tells.
func (c *call) reply(text string, a *Answers) (fits bool, err error) {
	r := reader{rest: text}
	fits, a.Now = r.int() == 1, r.int()
	if !fits {
		return false, r.err()
	}
	for i := range c.plan.Sets {
		r.answer(&a.Sets[i], len(c.plan.Sets[i].Rules))
	}
	for c.damaged = c.damaged[:0]; len(r.rest) > 0 && !r.bad; {
		c.damaged = append(c.damaged, r.index(len(c.subjects)+1))
	}
	return true, r.err()
}

// answer reads the answer to a set of n rules.
func (r *reader) answer(a *Answer, n int) {
	a.Decider, a.Reporter = r.index(n), r.index(n)
	a.Limit, a.Remaining, a.Reset, a.Retry = r.int(), r.int(), r.int(), r.int()
	a.Daily, a.Hits = r.int() == 1, r.int()
	for left := r.int(); left > 0 && !r.bad; left-- {
		a.Refusals = append(a.Refusals, r.index(n))
	}
}

// reader reads msgpack integers. After the first fault all are 0.
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

// bytes takes n bytes, as a number.
func (r *reader) bytes(n int) uint64 {
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

// int reads one integer.
func (r *reader) int() int64 {
	head := r.bytes(1)
	switch {
	case head < 0x80:
		return int64(head)
	case head >= 0xe0:
		return int64(int8(head))
	case head >= 0xcc && head <= 0xcf:
		return int64(r.bytes(1 << (head - 0xcc)))
	case head >= 0xd0 && head <= 0xd3:
		size := 1 << (head - 0xd0)
		shift := 64 - 8*size
		return int64(r.bytes(size)<<shift) >> shift
	}
	r.bad = true
	return 0
}

// index reads the index of one of n rules, or -1.
func (r *reader) index(n int) int {
	i := r.int()
	if i < -1 || i >= int64(n) {
		r.bad = true
		return -1
	}
	return int(i)
}
