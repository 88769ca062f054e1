package engine

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/rules"
)

// ExceptionKind is the effect of an Exception. The zero value has none.
type ExceptionKind uint8

// The kinds.
const (
	ExceptCount ExceptionKind = iota + 1 // another count, and burst if the rule states none
	ExceptAllow                          // the rule matches, counts nothing and never decides
	ExceptDeny                           // the rule decides
	ExceptBan                            // everything is refused, before any rule
)

// Exception replaces what a rule does for one identity until an instant. It applies to
// all operations but Peek and Reset, and not to limits that the call states itself: inputs with an
// Override, and matches of a Source that are Stated. ExceptBan has no rule:
// it refuses each input with all of its Params, whatever else the input has, and applies to
// operations that decide, except for refunds and charges.
type Exception struct {
	// ID names the exception in answers and logs.
	ID string
	// Match names the rule and the identity; see rules.Rule.Identify. ExceptBan has none.
	Match rules.Match
	// Params are the parameters of ExceptBan, at least one, with names as rules.Params.FullName
	// returns them and values without blanks around them. Other kinds have none.
	Params []rules.Param
	Kind   ExceptionKind
	// Count is the count of ExceptCount.
	Count int64
	// Until is the instant at which the exception ends, in ms since the epoch. The zero
	// value has ended: without Until the exception has no effect.
	Until int64
}

// applies reports whether the exception can apply to its rule: base and direct rules
// have no count to replace, and ExceptDeny needs a result that refuses.
func (x *Exception) applies() bool {
	r := x.Match.Rule
	if r == nil {
		return false
	}
	switch x.Kind {
	case ExceptCount:
		return method.Of(r.Method).Replaces
	case ExceptDeny:
		return r.Result.Verdict() != rules.Allow
	}
	return x.Kind == ExceptAllow
}

// Exceptions are the exceptions of an engine. They are safe for concurrent use; the zero
// value has none.
type Exceptions struct {
	book atomic.Pointer[exceptionBook] // nil if there are none
	now  func() int64
}

// SetClock sets the clock by which exceptions end, in ms since the epoch. It must be called
// before the first decision; without it they end by the clock of the engine.
func (e *Exceptions) SetClock(now func() int64) { e.now = now }

// Set replaces all exceptions, and retains the list: the caller must not change it
// afterwards. Each Match must refer to a rule of the engine's current set. Of several with the
// same rule and identity, the one that ends last applies. Exceptions without a rule, exceptions
// that cannot apply to their rules, and bans without parameters have no effect.
func (e *Exceptions) Set(list []Exception) { e.Prepare(list, func() {})() }

// Prepare does the work of Set ahead, and returns the function that replaces the exceptions in a
// moment. It calls pause between pieces of work that take some microseconds each.
func (e *Exceptions) Prepare(list []Exception, pause func()) (set func()) {
	var book *exceptionBook
	if len(list) > 0 {
		book = newExceptionBook(list, nil, pause)
	}
	return func() { e.book.Store(book) }
}

// maxAdded is how many exceptions are added by PrepareMore before all are prepared anew.
const maxAdded = 256

// PrepareMore does the work of adding exceptions ahead, as Prepare does it for all. Nothing else
// may change the exceptions before the function is called. It returns nil if the caller must
// prepare all anew, as after each few hundred additions: the others take time only for what was
// added lately.
func (e *Exceptions) PrepareMore(list []Exception, pause func()) (set func()) {
	base := e.book.Load()
	if base == nil {
		return e.Prepare(list, pause)
	}
	if base.older != nil {
		list, base = slices.Concat(base.list, list), base.older
	}
	if len(list) > maxAdded {
		return nil
	}
	book := newExceptionBook(list, base, pause)
	return func() { e.book.Store(book) }
}

// WithExceptions sets the exceptions of an engine; nil for none.
func WithExceptions(e *Exceptions) Option {
	return setting(func(s *settings) { s.exceptions = e })
}

// exceptionBook finds exceptions by rule and identity. Nearly all look-ups find none: a
// filter of 16 bits per exception, which fits into the caches, rejects 98 % of them
// without a look at its map.
type exceptionBook struct {
	seed    maphash.Seed
	filter  []uint64
	mask    uint64 // of bit numbers
	all     map[exceptionKey]*Exception
	bans    bans
	list    []Exception
	older   *exceptionBook // with those before, if list has only what was added; it has no older one
	direct  bool           // some of list or before are for direct rules
	banning bool           // some of list or before are bans
}

type exceptionKey struct {
	rule     int64
	identity string
}

const (
	bitsPerException = 16
	wordBits         = 64
)

func newExceptionBook(list []Exception, older *exceptionBook, pause func()) *exceptionBook {
	bits := uint64(wordBits)
	for bits < uint64(len(list))*bitsPerException {
		bits *= 2
	}
	b := &exceptionBook{
		filter: make([]uint64, bits/wordBits), mask: bits - 1,
		all:  make(map[exceptionKey]*Exception, len(list)),
		bans: newBans(list, pause), list: list, older: older,
	}
	b.banning = b.bans != nil
	if older == nil {
		b.seed = maphash.MakeSeed()
	} else {
		b.seed, b.direct, b.banning = older.seed, older.direct, older.banning || b.banning
	}
	for i := range list {
		pause()
		x := &list[i]
		if !x.applies() {
			continue
		}
		first, second := b.bits(b.hash(x.Match.Rule.Return, x.Match.Identity))
		b.filter[first/wordBits] |= 1 << (first % wordBits)
		b.filter[second/wordBits] |= 1 << (second % wordBits)
		key := exceptionKey{x.Match.Rule.Return, string(x.Match.Identity)}
		if same := b.all[key]; same == nil || same.Until <= x.Until {
			b.all[key] = x
		}
		b.direct = b.direct || !x.Match.Rule.Counts()
	}
	return b
}

// hash returns the hash of a rule and an identity, which is the same in the older book.
func (b *exceptionBook) hash(rule int64, identity []byte) uint64 {
	const golden = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	return maphash.Bytes(b.seed, identity) ^ uint64(rule)*golden
}

// bits returns the two bits of the filter that an exception with a hash sets.
func (b *exceptionBook) bits(hash uint64) (first, second uint64) {
	return hash & b.mask, hash >> (wordBits / 2) & b.mask
}

// find returns the exception of a rule and an identity, the one that ends last of several, and nil
// if there is none.
func (b *exceptionBook) find(rule int64, identity []byte) (found *Exception) {
	for hash := b.hash(rule, identity); b != nil; b = b.older {
		first, second := b.bits(hash)
		if b.filter[first/wordBits]&(1<<(first%wordBits)) == 0 || b.filter[second/wordBits]&(1<<(second%wordBits)) == 0 {
			continue
		}
		if x := b.all[exceptionKey{rule, string(identity)}]; x != nil && (found == nil || x.Until > found.Until) {
			found = x
		}
	}
	return found
}

// ban returns the ban that refuses a request at a time in ms since the epoch, the one that ends
// last of several, and nil if none does.
func (b *exceptionBook) ban(params *rules.Params, now int64) (found *Exception) {
	for ; b != nil; b = b.older {
		if b.bans == nil {
			continue
		}
		if x := b.bans.find(params, now); x != nil && (found == nil || x.Until > found.Until) {
			found = x
		}
	}
	return found
}

// exceptionKind returns the kind of the exception in the book that applies to match i of an
// input, 0 if none applies.
func (v *evaluation) exceptionKind(c *Call, in *Input, m *matchedInput, i int) ExceptionKind {
	if in.Override != nil || c.Op == Peek || c.Op == Reset {
		return 0
	}
	if x := v.except(m, i); x != nil {
		return x.Kind
	}
	return 0
}

// except returns the exception that applies to match i of an input, nil if none does.
func (v *evaluation) except(m *matchedInput, i int) *Exception {
	match := &m.matches.List[i]
	if match.Stated {
		return nil
	}
	identity := match.Identity
	if !match.Rule.Counts() {
		if !v.book.direct {
			return nil
		}
		identity = m.matches.Identify(i)
	}
	x := v.book.find(match.Rule.Return, identity)
	if x == nil || x.Until <= v.exceptionTime() {
		return nil
	}
	if x.Kind == ExceptCount {
		limits, possible := match.Rule.WithCount(match.Limits, x.Count)
		if !possible {
			return nil
		}
		match.Limits = limits
	}
	m.exceptions = append(m.exceptions, x)
	return x
}

// Exception returns the exception of a rule in force for the identity of a match, nil if none
// applies now. Bans of requests are found by Ban.
func (e *Engine) Exception(m *rules.Match) *Exception {
	book, now := e.exceptionsNow()
	if book == nil || m.Rule == nil || m.Stated {
		return nil
	}
	if x := book.find(m.Rule.Return, m.Identity); x != nil && x.Until > now {
		return x
	}
	return nil
}

// exceptionsNow returns the exceptions and the time by which they end, in ms since the epoch;
// nil without exceptions.
func (e *Engine) exceptionsNow() (*exceptionBook, int64) {
	if e == nil || e.store == nil {
		return nil, 0
	}
	book := e.exceptions.book.Load()
	if book == nil {
		return nil, 0
	}
	return book, e.exceptions.time(&e.clock)
}

// exceptionTime returns the time by which exceptions end, in ms since the epoch.
func (v *evaluation) exceptionTime() int64 {
	if v.plan.Now != 0 {
		return v.plan.Now
	}
	return v.exceptions.time(v.clock)
}

// time returns the time by the clock of the exceptions, or else by the one of their engine.
func (e *Exceptions) time(of *clock) int64 {
	if e.now != nil {
		return e.now()
	}
	return of.now()
}

// banned answers an input that an exception of the kind ExceptBan refuses.
var banned = &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny", HTTPStatus: http.StatusTooManyRequests, ErrMsg: "an operator has banned the client"}

// bans are the exceptions of the kind ExceptBan by one of their parameters: the one that the
// fewest of them have. Nil if there are none.
type bans map[rules.Param][]*Exception

func newBans(list []Exception, pause func()) bans {
	var some []*Exception
	with := make(map[rules.Param]int) // bans with a parameter
	for i := range list {
		pause()
		if x := &list[i]; x.Kind == ExceptBan && len(x.Params) > 0 {
			some = append(some, x)
			for _, p := range x.Params {
				with[p]++
			}
		}
	}
	if some == nil {
		return nil
	}
	by := make(bans, len(some))
	for _, x := range some {
		pause()
		rarest := x.Params[0]
		for _, p := range x.Params[1:] {
			if with[p] < with[rarest] {
				rarest = p
			}
		}
		by[rarest] = append(by[rarest], x)
	}
	return by
}

// find returns the ban that refuses a request at a time in ms since the epoch, the one that ends
// last of several, and nil if none does.
func (b bans) find(params *rules.Params, now int64) (found *Exception) {
	for _, p := range params.List() {
		for _, x := range b[named(params, p)] {
			if x.Until > now && (found == nil || x.Until > found.Until) && x.covers(params) {
				found = x
			}
		}
	}
	return found
}

// covers reports whether a request has all parameters of a ban.
func (x *Exception) covers(params *rules.Params) bool {
	for _, want := range x.Params {
		name, _, _ := strings.Cut(want.Name, "@") // names in rules contain no @
		value, found := params.Get(name)
		if !found || named(params, rules.Param{Name: name, Value: value}) != want {
			return false
		}
	}
	return true
}

// named returns a parameter of a request with its full name, and its value as rules compare it.
func named(params *rules.Params, p rules.Param) rules.Param {
	return rules.Param{Name: params.FullName(p.Name), Value: strings.TrimSpace(p.Value)}
}

// ban has a ban in the book refuse an input of the call if one applies, and reports whether it
// does.
func (v *evaluation) ban(c *Call, in *Input, m *matchedInput) bool {
	if !v.book.banning || in.Refund || in.Charge || !c.Op.Decides() {
		return false
	}
	now := v.exceptionTime()
	if m.ban = v.book.ban(in.Params, now); m.ban == nil {
		return false
	}
	m.banTime = milliseconds(m.ban.Until - now)
	m.excess, m.matched, m.matches.List = banned, false, m.matches.List[:0]
	m.exceptions = append(m.exceptions, m.ban)
	return true
}

// Ban returns the exception of the kind ExceptBan that refuses a request with these parameters
// now, nil if there is none.
func (e *Engine) Ban(params *rules.Params) *Exception {
	book, now := e.exceptionsNow()
	if book == nil {
		return nil
	}
	return book.ban(params, now)
}

// setBan sets the answer about an input that a ban refuses.
func (a *Answer) setBan(x *Exception, left time.Duration) {
	a.Ban, a.Verdict, a.Result, a.Retry = x, banned.Verdict(), banned, left
}
