package engine_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// origin is a request with an identifier.
type origin string

func (o origin) RequestID() string { return string(o) }

func TestRefusalNamesTheRequest(t *testing.T) {
	e := inMode(t, nil, engine.ModeEnforce)
	refusal := func(act string, o engine.Origin) string {
		t.Helper()
		call := &engine.Call{Op: engine.Take, Origin: o, Scratch: new(engine.Scratch), Inputs: []engine.Input{{
			Params: rules.MakeParams(map[string]string{"act": act, "uid": "ann"}),
		}}}
		d, err := e.Decide(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		return string(d.Refusal().Body)
	}
	refusal("post", nil) // the only hit
	for _, act := range []string{"post", "captcha"} {
		if got := refusal(act, origin("4bf92f35-77b3")); !strings.HasSuffix(got, `,"request_id":"4bf92f35-77b3"}`) {
			t.Errorf("%s: %s", act, got)
		}
		for _, none := range []engine.Origin{nil, origin("")} {
			if got := refusal(act, none); strings.Contains(got, "request_id") {
				t.Errorf("%s: %s", act, got)
			}
		}
	}
	if got := string(engine.ProblemOf(400, "bad", "a").Body); !strings.HasSuffix(got, `"detail":"bad","request_id":"a"}`) {
		t.Errorf("got %s", got)
	}
}

// A decision about one of several inputs names the request, too.
func TestSingleDecisionNamesTheRequest(t *testing.T) {
	e := inMode(t, nil, engine.ModeEnforce)
	inputs := make([]engine.Input, 2)
	for i, uid := range []string{"ann", "bob"} {
		inputs[i].Params, inputs[i].Hits = rules.MakeParams(map[string]string{"act": "post", "uid": uid}), uint64(1+i)
	}
	d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Origin: origin("a-1"), Inputs: inputs})
	if err != nil {
		t.Fatal(err)
	}
	var one engine.Decision
	for _, c := range []struct {
		input, refuser, answers int
		verdict                 rules.Verdict
	}{{0, -1, 1, rules.Allow}, {1, 0, 1, rules.Deny}, {2, -1, 0, rules.VerdictUnset}, {-1, -1, 0, rules.VerdictUnset}} {
		d.Single(c.input, &one)
		if one.Verdict != c.verdict || one.Refuser != c.refuser || len(one.Answers) != c.answers {
			t.Errorf("input %d: %v, refuser %d, %d answers; want %v", c.input, one.Verdict, one.Refuser, len(one.Answers), c)
		}
		if body := string(one.Refusal().Body); c.refuser == 0 && !strings.HasSuffix(body, `,"request_id":"a-1"}`) {
			t.Errorf("input %d: %s", c.input, body)
		}
	}
}
