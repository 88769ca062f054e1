package middleware_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

// A ban refuses every request with its parameters by 429 and Retry-After to its end, whether rules
// know the request or not; a middleware that observes or is off lets the request pass.
func TestBan(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleFile)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	ban := func(left int64, params ...string) engine.Exception {
		x := engine.Exception{ID: fmt.Sprint(params), Kind: engine.ExceptBan, Until: noon + left}
		for i := 0; i < len(params); i += 2 {
			x.Params = append(x.Params, rules.Param{Name: params[i], Value: params[i+1]})
		}
		return x
	}
	list := new(engine.Exceptions)
	list.SetClock(func() int64 { return noon })
	list.Set([]engine.Exception{
		ban(3_600_000, "uid", "ann"), ban(60_000, "door", middleware.Door, "method", "DELETE"), ban(1500, "uid", "eve", "path", "/paid"),
		ban(60_000, "door", "nginx"), ban(0, "uid", "ian"), ban(60_000, "plan", "none"),
	})
	for _, c := range []struct {
		line, uid, plan string
		retry           string // "" if the request passes
	}{
		{"GET /", "ann", "", "3600"},
		{"POST /comments?a=1", "ann", "", "3600"},
		{"GET /black", "ann", "", "3600"},
		{"DELETE /anything", "bob", "", "60"},
		{"GET /paid", "eve", "", "2"},
		{"GET /x/../%70aid", "eve", "", "2"},
		{"GET /free", "eve", "", ""},
		{"GET /", "bob", "none", "60"},
		{"GET /", "bob", "gold", ""},
		{"GET /", "ian", "", ""},
		{"POST /comments", "", "", ""},
	} {
		for mode, enforces := range map[engine.Mode]bool{engine.ModeEnforce: true, engine.ModeObserve: false, engine.ModeOff: false} {
			counters := memory.New(memory.Options{Clock: func() int64 { return noon }})
			modes := new(engine.Modes)
			modes.Set(map[string]engine.Mode{middleware.Door: mode})
			o := options(t, counters, mode)
			o.Engine = engine.New(set, wiring.CountIn(counters), engine.WithModes(modes), engine.WithExceptions(list))
			o.Params = func(*http.Request) map[string]string { return map[string]string{"plan": c.plan} }
			s, reached := serve(t, o)
			res, body := ask(t, s, c.line, "X-User-Id", c.uid)
			counters.Close()
			if c.retry == "" || !enforces {
				if c.retry == "" && res.StatusCode != http.StatusOK || res.StatusCode == http.StatusTooManyRequests || res.Header.Get("Retry-After") != "" {
					t.Errorf("%s of %q, %v: %d, Retry-After %q; want it passed", c.line, c.uid, mode, res.StatusCode, res.Header.Get("Retry-After"))
				}
				continue
			}
			const want = `{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"an operator has banned the client"}`
			if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != c.retry || body != want || res.Header.Get("X-Koala-Rule") != "" || reached.Load() != 0 {
				t.Errorf("%s of %q: %d, Retry-After %q, rule %q, %s, %d reached the handler; want 429, %q, no rule, %s and none",
					c.line, c.uid, res.StatusCode, res.Header.Get("Retry-After"), res.Header.Get("X-Koala-Rule"), body, reached.Load(), c.retry, want)
			}
		}
	}
}
