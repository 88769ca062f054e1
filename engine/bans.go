package engine

import (
	"net/http"
	"strings"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// banned answers an input that an exception of the kind ExceptBan refuses.
var banned = &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny", HTTPStatus: http.StatusTooManyRequests, ErrMsg: "an operator has banned the client"}

// bans are the exceptions of the kind ExceptBan by one of their parameters: the one that the
// fewest of them have. Nil if there are none.
type bans map[rules.Param][]*Exception

func newBans(list []Exception) bans {
	var some []*Exception
	with := make(map[rules.Param]int) // bans with a parameter
	for i := range list {
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

// ban has a ban refuse input i of the call if one applies, and reports whether it does.
func (v *evaluation) ban(c *Call, in *Input, m *matchedInput) bool {
	m.ban = nil
	if v.book == nil || v.book.bans == nil || in.Refund || !c.Op.Decides() {
		return false
	}
	now := v.exceptionTime()
	if m.ban = v.book.bans.find(in.Params, now); m.ban == nil {
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
	return book.bans.find(params, now)
}

// setBan sets the answer about an input that a ban refuses.
func (a *Answer) setBan(x *Exception, left time.Duration) {
	a.Ban, a.Verdict, a.Result, a.Retry = x, banned.Verdict(), banned, left
}
