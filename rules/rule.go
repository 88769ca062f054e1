package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/hits"
	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/internal/method"
)

// Method is the counting method of a rule.
type Method uint8

// The methods of the rule language. Their numbers are those of package method.
const (
	Direct Method = iota // decides as soon as it matches, counts nothing
	Count                // a window that its first hit opens, or the calendar day
	Base                 // free hits per day, then a window
	Leak                 // exact sliding window
	Token                // token bucket
	Hold                 // weight that is held at the same time
)

var methodNames = method.Names()

// String returns the word for the method in rule files.
func (m Method) String() string {
	if name := method.Of(m).Name; name != "" {
		return name
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// FailPolicy is the behavior of a rule while the store is unavailable.
type FailPolicy uint8

// The policies of `fail=`, from the least to the most strict. With FailUnset the policy
// of the door applies.
const (
	FailUnset   FailPolicy = iota
	FailAllow              // allow: the rule does not decide
	FailRescue             // rescue: count in process
	FailGateway            // gateway: leave the decision to the gateway's failure mode
	FailDeny               // deny: refuse
)

// Day is the `time` that makes a count rule's window the calendar day, in
// seconds.
const Day = 86400

// Rule is one line of [rules]. It is immutable.
type Rule struct {
	Method     Method
	Conditions []*Condition // in the order of the file
	Limits                  // for requests to which no Threshold gives another value
	Unit       Unit         // of the windows; count only. Time is the longest length of a unit of the calendar
	From       int          // the day on which a Week or a Month begins; 0 for the first
	Thresholds []Threshold  // the limits that depend on the request
	Overdraft  bool         // a take records its weight whatever the verdict; count, leak and token only
	Ban        int64        // seconds for which a refusal bans an identity, 0 for none; count and leak only
	Wait       int64        // the longest wait for a turn, in ms, 0 for none; token only
	Settle     int64        // seconds for which an estimate or an outcome waits for a settlement, 0 for neither; count, leak and token only
	Used       string       // the parameter of the response with the used hits, "" for the hits of the settlement
	Lease      int64        // the largest part of the limit, in thousandths, that instances may hold in advance, 0 for none; count and token only
	Erase1     int64        // hits that feedback of type erase1 gives back; leak only
	Erase2     int64        // hits that feedback of type erase2 gives back; leak only
	Cost       string       // the parameter that multiplies the hits; "" for none
	Result     *Result      // the answer if the rule decides
	Return     int64        // the rule's own number, unique, 1 … 2,147,483,647
	Shadow     bool         // counted and reported, but never decides
	Mark       string       // what the rule would refuse passes, is counted, and carries this word; "" for rules that refuse
	Quiet      bool         // clients do not see the limits
	Since      int64        // ms since the epoch; the rule matches no earlier request; 0 for none
	Until      int64        // ms since the epoch; the rule matches no request at or after it; 0 for none
	Name       string       // shown beside or instead of Return; unique, "" for none
	Fail       FailPolicy
	Pos        Position // of the rule

	statesBurst bool // the file states the burst; token only
	outcome     bool // it has a condition on the response
}

// Counts reports whether the rule has a counter, as with every method except direct.
func (r *Rule) Counts() bool { return method.Of(r.Method).Counts }

// Enforced reports whether the rule decides what it refuses: it is neither a shadow rule nor
// one that marks.
func (r *Rule) Enforced() bool { return !r.Shadow && r.Mark == "" }

// Label returns the number of the rule, followed by its name if it has one: 201 (posts).
func (r *Rule) Label() string { return Label(r.Return, r.Name) }

// Label returns the label of the rule with this number and name, as Rule.Label.
func Label(number int64, name string) string {
	if name == "" {
		return strconv.FormatInt(number, 10)
	}
	return fmt.Sprintf("%d (%s)", number, name)
}

// AppendPolicyName appends the name of the rule for clients: its name, or else r and its
// number. For koalagate's own programs, may change.
func (r *Rule) AppendPolicyName(b []byte) []byte {
	if r.Name != "" {
		return append(b, r.Name...)
	}
	return strconv.AppendInt(append(b, 'r'), r.Return, 10)
}

// Unit is the unit of the windows of a count rule.
type Unit uint8

// The units.
const (
	Seconds Unit = iota // windows of Time seconds that their first hit opens; with a Time of Day the calendar day
	Epoch               // windows of Time seconds that begin at whole multiples of Time since 1970 UTC
	Minute
	Hour
	_     // a unit of stores: the calendar day, which is Seconds with a Time of Day
	Week  // begins on the day From, 1 (Monday) … 7
	Month // begins on the day From, 1 … 31, or on the last day of a shorter month
	Year
)

// usesCalendar reports whether the windows of the rule are units of the calendar, and so
// depend on the time zone.
func (r *Rule) usesCalendar() bool {
	is := method.Of(r.Method)
	return is.FirstFree || is.Windows && (r.Unit >= Minute || r.Unit == Seconds && r.mayBeDay())
}

// mayBeDay reports whether the windows may be the calendar day.
func (r *Rule) mayBeDay() bool {
	return r.Time == Day || slices.ContainsFunc(r.Thresholds, func(t Threshold) bool { return t.Word == "time" })
}

func (r *Rule) isTimed() bool { return r.Since != 0 || r.Until != 0 }

// ActiveAt reports whether the rule is active at a time, in ms since the epoch: from
// Since on, and before Until. A rule that is not active matches no request.
func (r *Rule) ActiveAt(ms int64) bool {
	return (r.Since == 0 || ms >= r.Since) && (r.Until == 0 || ms < r.Until)
}

// Timed reports whether a rule has since or until, so that Match depends on the time. For
// koalagate's own programs, may change.
func (s *Set) Timed() bool { return s.timed }

// ResponsePrefix begins the names of the parameters that describe how a request ended.
// They come with a settlement, never with a request.
const ResponsePrefix = "response."

// OfResponse reports whether the condition is on a parameter of the response. It is
// tested when a request is settled, and is no part of the identity.
func (c *Condition) OfResponse() bool { return isOfResponse(c.Name) }

func isOfResponse(name string) bool { return strings.HasPrefix(name, ResponsePrefix) }

// IsOutcome reports whether the rule counts requests by how they ended: it has a
// condition on a parameter of the response.
func (r *Rule) IsOutcome() bool { return r.outcome }

// settles reports whether the rule has a part in the receipt of a request.
func (r *Rule) settles() bool { return r.Settle > 0 || method.Of(r.Method).Holds }

// Charges reports whether all conditions on the response hold for the parameters of a
// settlement. Integers may be spelled as hits are, 2e+09 included. For koalagate's own
// programs, may change.
func (r *Rule) Charges(p *Params) bool {
	for _, c := range r.Conditions {
		if c.OfResponse() && !c.holdsAtEnd(p) {
			return false
		}
	}
	return true
}

// holdsAtEnd reports whether the condition holds for the parameters of a settlement.
func (c *Condition) holdsAtEnd(p *Params) bool {
	raw, _ := p.Get(c.Name)
	var v value
	v.read(raw, c.comparesIntegers(), c.comparesAddresses())
	if !v.isInteger && c.comparesIntegers() {
		v.integer, v.isInteger = hits.Parse(v.text)
	}
	return c.holds(&v, 0)
}

// UsedHits returns the hits that a settlement states for the rule, in the parameter that
// used names, and reports whether it does. For koalagate's own programs, may change.
func (r *Rule) UsedHits(p *Params) (int64, bool) {
	if r.Used == "" {
		return 0, false
	}
	raw, _ := p.Get(r.Used)
	return hits.Parse(raw)
}

// Verdict is the meaning of a decision for its caller. Only Allow lets a request
// through.
type Verdict uint8

// The verdicts. The zero value belongs to a decision that was not made, and
// refuses.
const (
	VerdictUnset Verdict = iota
	Allow
	Deny      // refuse
	Challenge // ask for a captcha
)

var verdictNames = [...]string{"unset", "allow", "deny", "challenge"}

// String returns the word for the verdict in logs, metrics and headers.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Result is an entry of [result]: Koala's fields, and the response for the clients of
// gateways.
type Result struct {
	Number    int // the entry's number
	RetType   int64
	RetCode   int64 // the answer has this if no rule decided, and the rule's Return otherwise
	ErrNo     int64
	ErrMsg    string
	StrReason string
	NeedVcode int64
	VcodeLen  int64
	VcodeType int64
	Other     string
	Version   int64

	HTTPStatus int      // 0: the default of the refusal (429, 403)
	GRPCStatus int      // 0: the gateway's own mapping
	Headers    []Header // sent to the client on a refusal
	Body       string   // replaces the problem document; "" for none
	Pos        Position
}

// Header is one header line of a result entry.
type Header struct {
	Name  string
	Value string
}

// Verdict returns the meaning of the entry: Challenge if Need_vcode is not 0, else
// Deny if Err_no is not 0, else Allow, so that the zero entry allows, as {} does in
// Koala. It returns VerdictUnset for a nil entry.
func (r *Result) Verdict() Verdict {
	switch {
	case r == nil:
		return VerdictUnset
	case r.NeedVcode != 0:
		return Challenge
	case r.ErrNo != 0:
		return Deny
	}
	return Allow
}

// Entry returns the result as JSON in the form of Koala's API, with retCode instead
// of the entry's own Ret_code.
func (r *Result) Entry(retCode int64) []byte { return r.AppendEntry(nil, retCode) }

// AppendEntry appends Entry to b. It avoids encoding/json, which needs four
// allocations per answer. Like Koala, it does not escape HTML characters.
func (r *Result) AppendEntry(b []byte, retCode int64) []byte {
	number := func(name string, n int64) { b = strconv.AppendInt(append(b, name...), n, 10) }
	text := func(name, s string) { b = jsontext.AppendStringRawHTML(append(b, name...), s) }
	number(`{"Ret_type":`, r.RetType)
	number(`,"Ret_code":`, retCode)
	number(`,"Err_no":`, r.ErrNo)
	text(`,"Err_msg":`, r.ErrMsg)
	text(`,"Str_reason":`, r.StrReason)
	number(`,"Need_vcode":`, r.NeedVcode)
	number(`,"Vcode_len":`, r.VcodeLen)
	number(`,"Vcode_type":`, r.VcodeType)
	text(`,"Other":`, r.Other)
	number(`,"Version":`, r.Version)
	return append(b, '}')
}
