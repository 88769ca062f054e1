package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const modeRules = `
rule : [count]  [act=post; uid=+] [time=3600; count=1;] [result=2; return=201]
rule : [direct] [act=captcha]     [time=1; count=0;]    [result=3; return=202]
`

// inMode returns an engine whose door "d" is in a mode.
func inMode(t *testing.T, s store.Store, mode engine.Mode) *engine.Engine {
	t.Helper()
	if s == nil {
		m := memory.New(memory.Options{})
		t.Cleanup(m.Close)
		s = m
	}
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{"d": mode})
	return engine.New(parse(t, withResults(modeRules), rules.Options{}), wiring.CountIn(s), engine.WithModes(modes))
}

// The verdict and the X-Koala-Decision of two posts and a captcha in each mode, and the
// hits that are then counted.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode     engine.Mode
		verdicts []rules.Verdict
		words    []string
		hits     int64
	}{
		{engine.ModeEnforce, []rules.Verdict{rules.Allow, rules.Deny, rules.Challenge}, []string{"allow", "deny", "challenge"}, 1},
		{engine.ModeObserve, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}, []string{"allow", "observed-deny", "observed-challenge"}, 1},
		{engine.ModeOff, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}, []string{"off", "off", "off"}, 0},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			e := inMode(t, nil, c.mode)
			ask := func(op engine.Op, act string) *engine.Decision {
				d, err := e.Decide(context.Background(), &engine.Call{Door: "d", Op: op, Rule: 201, Inputs: []engine.Input{input(1, "act", act, "uid", "a")}})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			for i, act := range []string{"post", "post", "captcha"} {
				d := ask(engine.Take, act)
				if d.Verdict != c.verdicts[i] || d.Answers[0].Verdict != c.verdicts[i] || (d.Refuser < 0) != (d.Verdict == rules.Allow) {
					t.Errorf("request %d: %v of input %d; want %v", i+1, d.Verdict, d.Refuser, c.verdicts[i])
				}
				if word := d.Answers[0].DecisionWord(); word != c.words[i] {
					t.Errorf("request %d: the word is %q; want %q", i+1, word, c.words[i])
				}
			}
			if hits := ask(engine.Peek, "post").Answers[0].Hits; hits != c.hits {
				t.Errorf("%d hits are counted; want %d", hits, c.hits)
			}
			ask(engine.Update, "post")
			want := c.hits + 1
			if c.mode == engine.ModeOff {
				want = 0
			}
			if hits := ask(engine.Peek, "post").Answers[0].Hits; hits != want {
				t.Errorf("%d hits are counted after an update; want %d", hits, want)
			}
		})
	}
}

// The headers of an observed refusal have the quota, but neither Retry-After nor the
// headers of the entry.
func TestHeadersOfObservedRefusals(t *testing.T) {
	e := inMode(t, nil, engine.ModeObserve)
	var d *engine.Decision
	for range 2 {
		var err error
		if d, err = e.Decide(context.Background(), &engine.Call{Door: "d", Op: engine.Take, Now: noon, Inputs: []engine.Input{input(1, "act", "post", "uid", "a")}}); err != nil {
			t.Fatal(err)
		}
	}
	want := []rules.Header{
		{Name: "X-Koala-Decision", Value: "observed-deny"},
		{Name: "X-Koala-Rule", Value: "201"},
		{Name: "X-Koala-Result", Value: "2"},
		{Name: "RateLimit-Policy", Value: `"r201";q=1;w=3600`},
		{Name: "RateLimit", Value: `"r201";r=0;t=3600`},
	}
	if got := d.ClientHeaders(nil, engine.Presentation{Quota: engine.QuotaDraft10}); !slices.Equal(got, want) {
		t.Errorf("headers %v; want %v", got, want)
	}
}

// A call that cannot be decided is an error if the door enforces. Otherwise it passes,
// with one answer per input.
func TestModesOfUndecidableCalls(t *testing.T) {
	fault := errors.New("the path is malformed")
	twoInputs := []engine.Input{input(1, "act", "post", "uid", "a"), input(1)}
	for _, c := range []struct {
		name string
		call engine.Call
	}{
		{"a fault of the request", engine.Call{Fault: fault, Inputs: make([]engine.Input, 2)}},
		{"an unavailable store", engine.Call{Inputs: twoInputs}},
		{"too many hits", engine.Call{Inputs: []engine.Input{input(engine.MaxHits + 1), input(1)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.call.Door, c.call.Op = "d", engine.Take
			d, err := inMode(t, storetest.Failing{Err: errors.New("connection refused")}, engine.ModeEnforce).Decide(context.Background(), &c.call)
			if err == nil && !d.Unavailable || c.call.Fault != nil && !errors.Is(err, fault) {
				t.Errorf("enforced: %+v, %v; want an error or Unavailable", d, err)
			}
			for mode, word := range map[engine.Mode]string{engine.ModeObserve: "observed-deny", engine.ModeOff: "off"} {
				d, err := inMode(t, storetest.Failing{Err: errors.New("connection refused")}, mode).Decide(context.Background(), &c.call)
				if err != nil || d.Verdict != rules.Allow || len(d.Answers) != 2 || d.Answers[1].DecisionWord() != word {
					t.Fatalf("%s: %+v, %v; want two answers, %s", mode, d, err, word)
				}
				want := []rules.Header{{Name: "X-Koala-Decision", Value: word}}
				if got := d.ClientHeaders(nil, engine.Presentation{}); !slices.Equal(got, want) {
					t.Errorf("%s: headers %v; want %v", mode, got, want)
				}
			}
		})
	}
}

func TestCanceledContextIsAnErrorInObserveMode(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	call := &engine.Call{Door: "d", Op: engine.Take, Inputs: []engine.Input{input(1, "act", "post", "uid", "a")}}
	if _, err := inMode(t, storetest.Failing{Err: errors.New("connection refused")}, engine.ModeObserve).Decide(ctx, call); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the error of the context", err)
	}
}

func TestModesReportChanges(t *testing.T) {
	type change struct {
		door     string
		from, to engine.Mode
	}
	var got []change
	m := &engine.Modes{Changed: func(door string, from, to engine.Mode) { got = append(got, change{door, from, to}) }}
	m.Set(map[string]engine.Mode{"a": engine.ModeObserve})
	m.Set(map[string]engine.Mode{"a": engine.ModeObserve, "b": engine.ModeOff})
	m.Set(map[string]engine.Mode{"a": engine.ModeEnforce})
	want := []change{
		{"a", engine.ModeEnforce, engine.ModeObserve}, {"b", engine.ModeEnforce, engine.ModeOff}, {"a", engine.ModeObserve, engine.ModeEnforce},
	}
	if !slices.Equal(got, want) {
		t.Errorf("changes %v; want %v", got, want)
	}
	if m.Of("a") != engine.ModeEnforce || m.Of("b") != engine.ModeOff || m.Of("c") != engine.ModeEnforce {
		t.Errorf("modes %s %s %s; want enforce, off, enforce", m.Of("a"), m.Of("b"), m.Of("c"))
	}
}

func TestParseMode(t *testing.T) {
	for _, name := range []string{"enforce", "observe", "off"} {
		if m, err := engine.ParseMode(name); err != nil || string(m) != name {
			t.Errorf("%s: %s, %v", name, m, err)
		}
	}
	for _, name := range []string{"", "Off", "on"} {
		if m, err := engine.ParseMode(name); err == nil {
			t.Errorf("%q is parsed as %s", name, m)
		}
	}
}
