package trace

import (
	"strconv"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/rules"
)

// AppendAnswer appends the answer to a call as JSON. Several reports whether the
// call has its parameters in "sets"; the answer then has an element for each.
func AppendAnswer(b []byte, op engine.Op, d *engine.Decision, several bool) []byte {
	switch {
	case d.Unavailable:
		return append(b, `{"verdict":"deny","unavailable":true}`...)
	case op == engine.Update, op == engine.Refund, op == engine.Reset:
		b = append(b, `{"verdict":"ok"`...)
	case several:
		b = append(b, `{"verdict":"`...)
		b = append(append(b, d.Verdict.String()...), `","sets":[`...)
		for i := range d.Answers {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendSet(append(b, '{'), op, &d.Answers[i]), '}')
		}
		b = append(b, ']')
	default:
		b = appendSet(append(b, '{'), op, &d.Answers[0])
	}
	if d.Wait > 0 {
		b = appendNumber(b, "wait_ms", d.Wait.Milliseconds())
	}
	if d.Receipt != "" {
		b = append(b, `,"receipt":true`...)
	}
	if d.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	return append(b, '}')
}

// appendSet appends the fields of the answer to one parameter set.
func appendSet(b []byte, op engine.Op, a *engine.Answer) []byte {
	switch op {
	case engine.Peek:
		b = appendNumber(append(b, `"verdict":"ok"`...), "hits", a.Hits)
	case engine.Complete, engine.CompleteTake:
		b = append(append(append(b, `"verdict":"`...), a.Verdict.String()...), '"')
		b = append(b, `,"refusing":[`...)
		for i, r := range a.Refusing {
			b = appendRule(b, i, r, r.Result.Verdict())
		}
		b = append(b, ']')
	default:
		b = appendDecider(b, a)
	}
	if a.Limited {
		b = appendNumber(b, "limit", a.Quota.Limit)
		b = appendNumber(b, "remaining", a.Quota.Remaining)
		b = appendNumber(b, "reset_ms", a.Quota.ResetMS())
	}
	if a.Retry >= 0 {
		b = appendNumber(b, "retry_ms", a.RetryMS())
	}
	if len(a.Exceptions) > 0 {
		ids := a.Exceptions[0].ID
		for _, x := range a.Exceptions[1:] {
			ids += " " + x.ID //nolint:perfsprint // nearly always one
		}
		b = jsontext.AppendString(append(b, `,"exception":`...), ids)
	}
	if len(a.Shadow) == 0 {
		return b
	}
	b = append(b, `,"shadow":[`...)
	for i, s := range a.Shadow {
		b = appendRule(b, i, s.Rule, s.Verdict)
	}
	return append(b, ']')
}

// appendDecider appends the verdict and the rule that decided.
func appendDecider(b []byte, a *engine.Answer) []byte {
	b = append(append(append(b, `"verdict":"`...), a.Verdict.String()...), '"')
	if a.Overruled() { // the mode of the door overruled the refusal
		b = append(append(append(b, `,"observed":"`...), a.Observed.String()...), '"')
	}
	if a.Result.Number >= 0 { // negative numbers are not entries of the rule file
		b = appendNumber(b, "result", int64(a.Result.Number))
	}
	if a.Decider == nil {
		return appendNumber(b, "return", 0)
	}
	return appendName(appendNumber(b, "return", a.Decider.Return), a.Decider)
}

// appendName appends the name of a rule, if it has one. The name of an imported limit is
// its path, which may contain any text.
func appendName(b []byte, r *rules.Rule) []byte {
	if r.Name == "" {
		return b
	}
	return jsontext.AppendString(append(b, `,"name":`...), r.Name)
}

// appendRule appends an element of a list of rules with their verdicts.
func appendRule(b []byte, i int, r *rules.Rule, verdict rules.Verdict) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = appendName(strconv.AppendInt(append(b, `{"return":`...), r.Return, 10), r)
	b = append(append(b, `,"verdict":"`...), verdict.String()...)
	return append(b, `"}`...)
}

// appendNumber appends a field after other fields.
func appendNumber(b []byte, name string, n int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, n, 10)
}
