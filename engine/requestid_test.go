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

func TestValidRequestID(t *testing.T) {
	for id, want := range map[string]bool{
		"":                       false,
		"1":                      true,
		"4bf92f35-77b3_A.:/+=@~": true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"a b":                    false,
		"a\"b":                   false,
		"a\nb":                   false,
		"a,b":                    false,
		"é":                      false,
		"<script>":               false,
	} {
		if got := engine.ValidRequestID(id); got != want {
			t.Errorf("%q: %v; want %v", id, got, want)
		}
	}
}
