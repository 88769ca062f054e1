package engine

import (
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/rules"
)

// QuotaHeaders is the form of the quota headers of a response. An unknown form acts
// as QuotaBoth.
type QuotaHeaders string

// The forms of quota headers, as the setting `headers` names them.
const (
	QuotaDraft10 QuotaHeaders = "draft10" // RateLimit and RateLimit-Policy, draft-ietf-httpapi-ratelimit-headers-10
	QuotaLegacy  QuotaHeaders = "legacy"  // RateLimit-Limit, -Remaining and -Reset
	QuotaBoth    QuotaHeaders = "both"
	QuotaNone    QuotaHeaders = "none"
)

// Presentation selects the headers that clients receive. The zero value sends the
// quota in both forms, the decision, the rule and the result.
type Presentation struct {
	Quota QuotaHeaders // "" means QuotaBoth
	// HideDecision leaves X-Koala-Decision, X-Koala-Rule and X-Koala-Result out
	// of responses to clients.
	HideDecision bool
}

// The names of the headers of this project.
const (
	HeaderDecision = "X-Koala-Decision" // the DecisionWord
	HeaderRule     = "X-Koala-Rule"     // the number of the rule that decided
	HeaderResult   = "X-Koala-Result"   // the number of the entry of [result]
	HeaderDegraded = "X-Koala-Degraded" // 1 if Redis is unavailable
	HeaderReceipt  = "X-Koala-Receipt"  // the receipt of the request, never for clients
	HeaderMark     = "X-Koala-Mark"     // the marks of the request, for its application alone
)

const headerRetryAfter = "Retry-After"

// DecisionWord returns the value of X-Koala-Decision: allow, deny, challenge, or
// none if no rule matched and entry 0 allows. It is observed-deny or
// observed-challenge if ModeObserve overruled the verdict, and off in ModeOff.
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
	case a.Verdict == rules.Allow, a.Verdict == rules.Challenge:
		return a.Verdict.String()
	}
	return rules.Deny.String()
}

// DecisionHeaders appends the X-Koala headers of a decision about one input to
// dst. Upstreams receive them, and clients unless Presentation hides them.
func (d *Decision) DecisionHeaders(dst []rules.Header) []rules.Header {
	if d.Unavailable || len(d.Answers) == 0 {
		return dst
	}
	return d.Answers[0].decisionHeaders(dst, quotaText{})
}

// ApplicationHeaders appends the headers that are for the application alone to dst: the
// receipt and the marks. Doors that cannot be sure that a client's own are removed send none.
// The decision must have exactly one input.
func (d *Decision) ApplicationHeaders(dst []rules.Header) []rules.Header {
	if d.Receipt != "" {
		dst = append(dst, rules.Header{Name: HeaderReceipt, Value: d.Receipt})
	}
	if len(d.Answers) > 0 && len(d.Answers[0].Marked) > 0 {
		dst = append(dst, rules.Header{Name: HeaderMark, Value: strings.Join(d.Answers[0].Marks(), ", ")})
	}
	return dst
}

// decisionHeaders appends the DecisionHeaders. The text of the rule's number is
// taken from t if it is there.
func (a *Answer) decisionHeaders(dst []rules.Header, t quotaText) []rules.Header {
	dst = append(dst, rules.Header{Name: HeaderDecision, Value: a.DecisionWord()})
	if a.Decider != nil {
		number := t.rule
		if number == "" || a.Decider != a.Quota.Rule {
			number = strconv.FormatInt(a.Decider.Return, 10)
		}
		dst = append(dst, rules.Header{Name: HeaderRule, Value: number})
	}
	if a.Result == nil || a.Result.Number < 0 {
		return dst // no entry of the rule file
	}
	return append(dst, rules.Header{Name: HeaderResult, Value: strconv.Itoa(a.Result.Number)})
}

// ClientHeaders appends the headers for the client of a gateway to dst, for requests
// that pass and for refusals. The headers that describe the body of a refusal are not
// included. The decision must have exactly one input.
func (d *Decision) ClientHeaders(dst []rules.Header, p Presentation) []rules.Header {
	if d.Degraded {
		dst = append(dst, rules.Header{Name: HeaderDegraded, Value: "1"})
	}
	if d.Unavailable || len(d.Answers) == 0 {
		return dst
	}
	a := &d.Answers[0]
	var t quotaText
	if a.ShowsQuota() {
		t = a.Quota.text(a.Retry)
	}
	if !p.HideDecision {
		dst = a.decisionHeaders(dst, t)
	}
	dst = t.quotaHeaders(dst, p.Quota)
	if a.Verdict == rules.Deny && a.Retry >= 0 {
		if t.retry == "" { // a quiet rule has no quota text
			t.retry = strconv.FormatInt(httptext.Seconds(a.Retry), 10)
		}
		dst = append(dst, rules.Header{Name: headerRetryAfter, Value: t.retry})
	}
	if a.Verdict != rules.Allow && a.Result != nil {
		dst = append(dst, a.Result.Headers...)
	}
	return dst
}

// ShowsQuota reports whether clients may see Quota: not with a challenge, and not
// the quota of a rule with quiet=1.
func (a *Answer) ShowsQuota() bool {
	return a.Limited && a.Verdict != rules.Challenge && a.Observed != rules.Challenge && (a.Quota.Rule == nil || !a.Quota.Rule.Quiet)
}

// quotaText holds the values of the quota headers and the numbers that other
// headers repeat. All are parts of one string, because most responses carry them
// and each string costs an allocation. The zero value is empty.
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
	var buffer [320]byte
	b := buffer[:0]
	put := func(before string, n int64) (from, to int) {
		b = append(b, before...)
		from = len(b)
		b = strconv.AppendInt(b, n, 10)
		return from, len(b)
	}
	b = append(q.appendPolicyName(append(b, '"')), '"')
	limitFrom, limitTo := put(";q=", q.Limit)
	_, policyTo := put(";w=", q.Window)
	b = append(q.appendPolicyName(append(b, '"')), '"')
	remainingFrom, remainingTo := put(";r=", q.Remaining)
	resetFrom, resetTo := put(";t=", httptext.Seconds(q.Reset))
	retryFrom := resetFrom
	if retry >= 0 && httptext.Seconds(retry) != httptext.Seconds(q.Reset) {
		retryFrom, _ = put("", httptext.Seconds(retry))
	}
	retryTo := len(b)
	if q.Rule != nil {
		put("", q.Rule.Return)
	}
	all := string(b)
	t := quotaText{
		policy: all[:policyTo], state: all[policyTo:resetTo],
		limit: all[limitFrom:limitTo], remaining: all[remainingFrom:remainingTo], reset: all[resetFrom:resetTo],
	}
	if retry >= 0 {
		t.retry = all[retryFrom:retryTo]
	}
	t.rule = all[retryTo:]
	return t
}

// PolicyName returns the name of the quota policy for clients: the name of the rule, or
// "r" and its number if it has none, or "limit" for an Override that no rule matched.
func (q *Quota) PolicyName() string { return string(q.appendPolicyName(nil)) }

func (q *Quota) appendPolicyName(b []byte) []byte {
	if q.Rule == nil {
		return append(b, "limit"...)
	}
	return q.Rule.AppendPolicyName(b)
}
