package middleware_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

const markingRules = `[params]
uid : header X-User
[rules]
rule : [count] [uid=+] [time=90; count=1] [result=2; return=1; mark=slow]
rule : [count] [uid=+] [time=90; count=2] [result=2; return=2; mark=cheap]
rule : [count] [uid=+] [time=90; count=4] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// TestHandlersSeeTheMarks checks that a handler sees the marks of its request, and never a
// client's own, in each mode and without a store.
func TestHandlersSeeTheMarks(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(markingRules)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	modes := new(engine.Modes)
	for name, c := range map[string]struct {
		o    engine.Option
		mode engine.Mode
		want string // what four requests see
	}{
		"enforcing":       {engine.WithModes(modes), engine.ModeEnforce, "|slow|slow, cheap|slow, cheap"},
		"observing":       {engine.WithModes(modes), engine.ModeObserve, "|slow|slow, cheap|slow, cheap"},
		"off":             {engine.WithModes(modes), engine.ModeOff, "|||"},
		"without a store": {wiring.CountIn(storetest.Failing{Err: errors.New("away")}), engine.ModeEnforce, "|||"},
	} {
		modes.Set(map[string]engine.Mode{middleware.Door: c.mode})
		var seen []string
		limited := middleware.New(middleware.Options{Engine: engine.New(set, c.o), FailOpen: true})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = append(seen, strings.Join(r.Header.Values(engine.HeaderMark), "+"))
		}))
		for range 4 {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-User", "ann")
			r.Header["X-Koala-Mark"] = []string{"forged", "again"}
			w := httptest.NewRecorder()
			limited.ServeHTTP(w, r)
			if got := w.Header().Get(engine.HeaderMark); got != "" {
				t.Errorf("%s: the client gets the marks %q", name, got)
			}
		}
		if got := strings.Join(seen, "|"); got != c.want {
			t.Errorf("%s: the handler saw %q; want %q", name, got, c.want)
		}
	}
}
