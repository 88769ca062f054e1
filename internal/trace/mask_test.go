package trace_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// requestID is a request with an identifier.
type requestID string

func (r requestID) RequestID() string { return string(r) }

// Words that the routes of the rules set are plain at gateways, where no client chose them.
func TestWordsOfRoutesAreShown(t *testing.T) {
	const text = `[routes]
POST /posts : act=post
[rules]
rule : [count] [act=post] [time=60; count=1] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if set == nil {
		t.Fatal(findings)
	}
	for _, c := range []struct {
		door, setting, value string
		shown                bool
	}{
		{"extauthz", trace.ShowNone, "post", true},
		{"extauthz", trace.ShowNone, "secret", false},
		{"extauthz", trace.ShowDoor, "post", false},
		{"koala", trace.ShowNone, "post", false},
		{"ratelimit", trace.ShowNone, "post", false},
	} {
		m := trace.NewMask([]string{c.setting})
		if m.Value(c.door, "act", c.value) == c.value {
			t.Errorf("%s is shown before the rules are known", c.value)
		}
		m.Use(set)
		if shown := m.Value(c.door, "act", c.value) == c.value; shown != c.shown {
			t.Errorf("act=%s at %s with %s is shown: %v; want %v", c.value, c.door, c.setting, shown, c.shown)
		}
	}
}

// By default the log masks what identifies callers, by the door of the call.
func TestMaskedParametersByDoor(t *testing.T) {
	for _, c := range []struct {
		door    string
		setting string
		plain   []string
	}{
		{"extauthz", trace.ShowNone, []string{"door", "method", "path", "scheme"}},
		{"auth-request", trace.ShowNone, []string{"door", "method", "path", "scheme"}},
		{"extauthz", trace.ShowDoor, []string{"door"}},
		{"ratelimit", trace.ShowNone, []string{"door", "domain"}},
		{"koala", trace.ShowNone, []string{"door"}},
		{"koala", "uid", []string{"door", "uid"}},
	} {
		f := new(file)
		e, l := logging(t, trace.LogOptions{Mask: trace.NewMask([]string{c.setting}), Instance: "host:7"}, f)
		params := map[string]string{}
		for _, name := range []string{"domain", "method", "path", "scheme", "uid", "host", "ip"} {
			params[name] = "value-of-" + name
		}
		params["door"] = c.door
		call := &engine.Call{Rules: e.Rules(), Door: c.door, Op: engine.Take, Origin: requestID("r-1"), Inputs: []engine.Input{{Params: rules.MakeParams(params)}}}
		if _, err := e.Decide(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		text := f.String()
		for name, value := range params {
			shown := strings.Contains(text, `"`+name+`":"`+value+`"`)
			want := false
			for _, p := range c.plain {
				want = want || p == name
			}
			if shown != want {
				t.Errorf("%s at %s with %s is shown: %v; want %v: %s", name, c.door, c.setting, shown, want, text)
			}
		}
		if want := `"hash":"` + e.Rules().Hash + `","instance":"host:7","request_id":"r-1","params"`; !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// Identities name later sources with their values: the setting is about the parameter.
func TestMaskOfIdentities(t *testing.T) {
	m := trace.NewMask([]string{"uid"})
	for name, isShown := range map[string]bool{"uid": true, "uid@client-ip": true, "ip": false, "ip@uid": false} {
		if got := m.InIdentity("extauthz", name, "ann"); (got == "ann") != isShown || m.Shows(name) != isShown {
			t.Errorf("%s is written as %s, and shown is %v; want %v", name, got, m.Shows(name), isShown)
		}
	}
}
