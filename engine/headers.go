package engine

import (
	"strconv"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// QuotaHeaders says in which form clients are told of their quota.
type QuotaHeaders string

// The forms of the setting `headers`.
const (
	QuotaDraft10 QuotaHeaders = "draft10" // RateLimit and RateLimit-Policy, draft-ietf-httpapi-ratelimit-headers-10
	QuotaLegacy  QuotaHeaders = "legacy"  // RateLimit-Limit, -Remaining and -Reset
	QuotaBoth    QuotaHeaders = "both"
	QuotaNone    QuotaHeaders = "none"
)

// Presentation says what of a decision clients are told. The zero value tells
// the quota in both forms, and the decision, the rule and the result.
type Presentation struct {
	Quota QuotaHeaders // "" is QuotaBoth
	// HideDecision keeps X-Koala-Decision, X-Koala-Rule and X-Koala-Result
	// from clients.
	HideDecision bool
}

// Header names of the project's own, and of the field's.
const (
	HeaderDecision   = "X-Koala-Decision"
	HeaderRule       = "X-Koala-Rule"
	HeaderResult     = "X-Koala-Result"
	HeaderDegraded   = "X-Koala-Degraded"
	headerRetryAfter = "Retry-After"
)

// DecisionWord is what X-Koala-Decision says: allow, deny, challenge, or none
// where no rule matched and entry 0 allows; observed-deny or
// observed-challenge where ModeObserve has overruled that, off in ModeOff.
func (a *Answer) DecisionWord() string {
	switch {
	case a.Mode == ModeOff:
		return string(ModeOff)
	case a.Observed == rules.Deny:
		return "observed-deny"
	case a.Observed == rules.Challenge:
		return "observed-challenge"
	case a.Verdict == rules.Allow && !a.Matched:
		return "none"
	}
	return a.Verdict.String()
}

// DecisionHeaders are the X-Koala fields of a decision about one set: what an
// upstream may know, and clients unless they are hidden from them.
func (d *Decision) DecisionHeaders(dst []rules.Header) []rules.Header {
	if d.Unavailable {
		return dst
	}
	return d.Sets[0].decisionHeaders(dst, quotaText{})
}

// decisionHeaders are DecisionHeaders, with the rule's number out of t if it
// stands there.
func (a *Answer) decisionHeaders(dst []rules.Header, t quotaText) []rules.Header {
	dst = append(dst, rules.Header{Name: HeaderDecision, Value: a.DecisionWord()})
	if a.Decider != nil {
		number := t.rule
		if number == "" || a.Decider != a.Quota.Rule {
			number = strconv.FormatInt(a.Decider.Return, 10)
		}
		dst = append(dst, rules.Header{Name: HeaderRule, Value: number})
	}
	if a.Result.Number < 0 {
		return dst // it is no entry
	}
	return append(dst, rules.Header{Name: HeaderResult, Value: strconv.Itoa(a.Result.Number)})
}

// ClientHeaders are the fields that the client of a gateway gets, whether it
// is let through or refused; those of a refusal's body are not among them.
func (d *Decision) ClientHeaders(dst []rules.Header, p Presentation) []rules.Header {
	if d.Degraded {
		dst = append(dst, rules.Header{Name: HeaderDegraded, Value: "1"})
	}
	if d.Unavailable {
		return dst
	}
	a := &d.Sets[0]
	var t quotaText
	if a.TellsQuota() {
		t = a.Quota.text(a.Retry)
	}
	if !p.HideDecision {
		dst = a.decisionHeaders(dst, t)
	}
	dst = t.quotaHeaders(dst, p.Quota)
	if a.Verdict == rules.Deny && a.Retry >= 0 {
		if t.retry == "" { // a quiet rule has no more to tell
			t.retry = strconv.FormatInt(Seconds(a.Retry), 10)
		}
		dst = append(dst, rules.Header{Name: headerRetryAfter, Value: t.retry})
	}
	if a.Verdict != rules.Allow {
		dst = append(dst, a.Result.Headers...)
	}
	return dst
}

// TellsQuota tells whether clients may know the reported quota: not on a
// challenge, and not of a rule with quiet=1.
func (a *Answer) TellsQuota() bool {
	return a.Limited && a.Verdict != rules.Challenge && a.Observed != rules.Challenge && (a.Quota.Rule == nil || !a.Quota.Rule.Quiet)
}

// quotaText are the values of a quota's headers, and the numbers that stand
// beside them. All are parts of one string: most responses carry them, and little
// else that is made for them alone. The zero value tells nothing.
type quotaText struct{ policy, state, limit, remaining, reset, retry, rule string }

func (t *quotaText) quotaHeaders(dst []rules.Header, form QuotaHeaders) []rules.Header {
	if form == QuotaNone || t.policy == "" {
		return dst
	}
	if form != QuotaLegacy {
		dst = append(dst,
			rules.Header{Name: "RateLimit-Policy", Value: t.policy},
			rules.Header{Name: "RateLimit", Value: t.state})
	}
	if form != QuotaDraft10 {
		dst = append(dst,
			rules.Header{Name: "RateLimit-Limit", Value: t.limit},
			rules.Header{Name: "RateLimit-Remaining", Value: t.remaining},
			rules.Header{Name: "RateLimit-Reset", Value: t.reset})
	}
	return dst
}

func (q *Quota) text(retry time.Duration) quotaText {
	var room [192]byte
	b := room[:0]
	put := func(before string, n int64) (from, to int) {
		b = append(b, before...)
		from = len(b)
		b = strconv.AppendInt(b, n, 10)
		return from, len(b)
	}
	b = append(q.appendPolicyName(append(b, '"')), '"')
	nameTo := len(b) - 1
	limitFrom, limitTo := put(";q=", q.Limit)
	_, policyTo := put(";w=", q.Window)
	b = append(q.appendPolicyName(append(b, '"')), '"')
	remainingFrom, remainingTo := put(";r=", q.Remaining)
	resetFrom, resetTo := put(";t=", Seconds(q.Reset))
	retryFrom := resetFrom
	if retry >= 0 && Seconds(retry) != Seconds(q.Reset) {
		retryFrom, _ = put("", Seconds(retry))
	}
	all := string(b)
	t := quotaText{
		policy: all[:policyTo], state: all[policyTo:resetTo],
		limit: all[limitFrom:limitTo], remaining: all[remainingFrom:remainingTo], reset: all[resetFrom:resetTo],
	}
	if retry >= 0 {
		t.retry = all[retryFrom:]
	}
	if q.Rule != nil {
		t.rule = all[len(`"r`):nameTo]
	}
	return t
}

// PolicyName is the quota policy's name for clients: "r" and the rule's
// number, "limit" for one that the call brought.
func (q *Quota) PolicyName() string { return string(q.appendPolicyName(nil)) }

func (q *Quota) appendPolicyName(b []byte) []byte {
	if q.Rule == nil {
		return append(b, "limit"...)
	}
	return strconv.AppendInt(append(b, 'r'), q.Rule.Return, 10)
}

// Seconds is d in whole seconds, rounded up: a client that waits so long has
// waited long enough.
func Seconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}
