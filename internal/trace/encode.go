package trace

import (
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/rules"
)

// appendLine appends a call and its answer as a line of a trace of an instance, with
// masked values.
func appendLine(b []byte, at int64, c *engine.Call, d *engine.Decision, m *Mask, instance string) []byte {
	b = strconv.AppendInt(append(b, `{"t":`...), at, 10)
	b = appendOptional(b, `,"op":`, c.Op.String())
	b = appendOptional(b, `,"door":`, c.Door)
	if c.Rules != nil {
		b = appendOptional(b, `,"hash":`, c.Rules.Hash)
	}
	b = appendOptional(b, `,"instance":`, instance)
	if c.Origin != nil {
		b = appendOptional(b, `,"request_id":`, c.Origin.RequestID())
	}
	if d.Receipt != "" {
		b = labelOf(d.Receipt).appendTo(b)
	}
	if len(c.Inputs) == 1 {
		b = appendInput(append(b, ','), c.Door, &c.Inputs[0], m)
	} else {
		b = append(b, `,"sets":[`...)
		for i := range c.Inputs {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendInput(append(b, '{'), c.Door, &c.Inputs[i], m), '}')
		}
		b = append(b, ']')
	}
	if c.Rule != 0 {
		b = appendNumber(b, "rule", c.Rule)
	}
	if c.Erase != 0 {
		b = appendNumber(b, "erase", int64(c.Erase))
	}
	b = AppendAnswer(append(b, `,"answer":`...), c.Op, d, len(c.Inputs) != 1)
	return append(b, "}\n"...)
}

// appendInput appends the fields of one parameter set at a door.
func appendInput(b []byte, door string, in *engine.Input, m *Mask) []byte {
	b = append(b, `"params":{`...)
	for i, p := range in.Params.List() {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.AppendString(b, in.Params.FullName(p.Name))
		b = m.appendTo(append(b, ':'), door, p.Name, p.Value)
	}
	b = strconv.AppendUint(append(b, `},"hits":`...), in.EffectiveHits(), 10)
	if in.Refund {
		b = append(b, `,"refund":true`...)
	}
	if o := in.Override; o != nil {
		b = strconv.AppendInt(append(b, `,"limit":{"count":`...), o.Count, 10)
		b = appendNumber(b, "seconds", o.Seconds)
		b = append(b, `,"entries":[`...)
		for i, e := range o.Entries {
			if i > 0 {
				b = append(b, ',')
			}
			if i%2 == 1 { // keys and values alternate
				b = m.appendTo(b, door, o.Entries[i-1], e)
			} else {
				b = jsontext.AppendString(b, e)
			}
		}
		b = append(b, `]}`...)
	}
	return b
}

// appendOptional appends a field unless its value is empty.
func appendOptional(b []byte, field, value string) []byte {
	if value == "" {
		return b
	}
	return jsontext.AppendString(append(b, field...), value)
}

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
	if marks := a.Marks(); marks != nil {
		b = append(b, `,"marks":["`+strings.Join(marks, `","`)+`"]`...)
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
