package ruletest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// meets returns the value of the field in the answer, and reports whether it is as
// expected.
func (a *answer) meets(w Want) (got string, ok bool) {
	if name, found := strings.CutPrefix(w.Field, headerField); found {
		got = a.header(name)
		return got, got == w.Value
	}
	if name, found := strings.CutPrefix(w.Field, paramField); found {
		got = a.param(name)
		return got, got == w.Value
	}
	if name, found := strings.CutPrefix(w.Field, forwardField); found {
		got = a.forward(name)
		return got, got == w.Value
	}
	if w.Field == "rule" {
		r := a.decider()
		if r == nil {
			return none, w.Value == none
		}
		if r.Name == none {
			return strconv.FormatInt(r.Return, 10), isCalled(r, w.Value)
		}
		return r.Label(), isCalled(r, w.Value)
	}
	if w.Field == "shadow" {
		return a.shadow(w.Value)
	}
	if w.Field == "marks" {
		got = a.marks()
		return got, got == w.Value
	}
	got = a.value(w.Field)
	return got, got == w.Value
}

// isCalled reports whether a rule has this name or number. A rule with the name none has
// only its number here.
func isCalled(r *rules.Rule, name string) bool {
	return name != "" && name != none && name == r.Name || name == strconv.FormatInt(r.Return, 10)
}

func (a *answer) decider() *rules.Rule {
	if a.decision == nil {
		return nil
	}
	return a.decision.Answers[0].Decider
}

// value returns a field that every answer has.
func (a *answer) value(field string) string {
	if a.decision == nil { // refused before any rule
		switch field {
		case "verdict":
			return rules.Deny.String()
		case "status":
			return strconv.Itoa(a.report.Refused.Status)
		}
		return none
	}
	d := a.decision
	one := &d.Answers[0]
	switch {
	case field == "verdict":
		return one.Verdict.String()
	case field == "retry":
		return span(one.Retry)
	case field == "status" && d.Verdict == rules.Allow:
		return strconv.Itoa(http.StatusOK)
	case field == "status":
		return strconv.Itoa(d.Refusal().Status)
	case field == "result" && one.Result != nil:
		return strconv.Itoa(one.Result.Number)
	case !one.Limited:
		return none
	case field == "limit":
		return strconv.FormatInt(one.Quota.Limit, 10)
	case field == "remaining":
		return strconv.FormatInt(one.Quota.Remaining, 10)
	case field == "reset":
		return span(one.Quota.Reset)
	}
	return none
}

func span(d time.Duration) string {
	if d < 0 {
		return none
	}
	return d.String()
}

// header returns a header of the answer to a gateway's client.
func (a *answer) header(name string) string {
	var values []string
	for _, h := range a.headers {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	if values == nil {
		return absent
	}
	return strings.Join(values, ", ")
}

// param returns a parameter that the rules saw.
func (a *answer) param(name string) string {
	for _, p := range a.report.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return absent
}

// forward returns a header of [forward] that the application receives.
func (a *answer) forward(name string) string {
	for _, f := range a.report.Forward {
		if strings.EqualFold(f.Header, name) && f.Value != "" {
			return f.Value
		}
	}
	return absent
}

// marks returns the marks that the request carries.
func (a *answer) marks() string {
	if a.decision == nil {
		return none
	}
	return listOr(a.decision.Answers[0].Marks())
}

// shadow returns the shadow rules that would have decided, and reports whether they are
// the expected ones.
func (a *answer) shadow(want string) (got string, ok bool) {
	var labels []string
	var wants []string
	if want != none {
		wants = strings.Split(want, ", ")
	}
	if a.decision != nil {
		for i, s := range a.decision.Answers[0].Shadow {
			labels = append(labels, s.Rule.Label())
			ok = (i == 0 || ok) && i < len(wants) && isCalled(s.Rule, wants[i])
		}
	}
	return listOr(labels), len(labels) == len(wants) && (ok || len(wants) == 0)
}
