package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

const ruleFile = `
[params]
uid : header X-User-Id else client-ip
session : cookie session
key : query key
[routes]
POST /comments : act=comment
*    /black    : act=black
*    /captcha  : act=captcha
*    /teapot   : act=teapot
*    /nothing  : act=nothing
[rules]
rule : [direct] [door=middleware; act=black] [] [result=2; return=100]
rule : [direct] [act=captcha] [] [result=3; return=101]
rule : [direct] [act=teapot]  [] [result=4; return=102]
rule : [direct] [act=nothing] [] [result=5; return=103]
rule : [count]  [act=comment; uid=+] [time=90; count=2;] [result=2; return=201]
rule : [count]  [session=+]          [time=90; count=1;] [result=2; return=202]
rule : [count]  [key=+]              [time=90; count=1;] [result=2; return=203]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
3 : {"Err_no":20, "Need_vcode":1, "Vcode_len":4}
4 : {"Err_no":10, "Http_status":418, "Headers":{"Location":"/tea"}, "Body":"short and stout"}
5 : {"Err_no":10, "Http_status":204, "Body":"none"}
`

const noon = 1780286400000

// options returns the options of a middleware in a mode, on s or on an empty store whose
// clock stands at noon.
func options(t *testing.T, s store.Store, mode engine.Mode) middleware.Options {
	t.Helper()
	if s == nil {
		m := memory.New(memory.Options{Clock: func() int64 { return noon }})
		t.Cleanup(m.Close)
		s = m
	}
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleFile)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{"middleware": mode})
	return middleware.Options{Engine: engine.New(set, wiring.CountIn(s), engine.WithModes(modes)), Logger: slog.New(slog.DiscardHandler)}
}

// serve starts a server behind the middleware and counts the requests that reach its
// handler.
func serve(t *testing.T, o middleware.Options) (s *httptest.Server, reached *atomic.Int32) {
	t.Helper()
	reached = new(atomic.Int32)
	s = httptest.NewServer(middleware.New(o)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		_, _ = io.Copy(w, r.Body)
	})))
	t.Cleanup(s.Close)
	return s, reached
}

func ask(t *testing.T, s *httptest.Server, line string, headers ...string) (*http.Response, string) {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	r, err := http.NewRequest(method, s.URL+target, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestAnswers(t *testing.T) {
	const forbidden = `{"type":"about:blank","title":"Forbidden","status":403`
	for _, c := range []struct {
		line    string
		status  int
		body    string
		rule    string
		limited string // RateLimit-Policy
	}{
		{"GET /", 200, "hello", "", ""},
		{"POST /comments?a=1", 200, "hello", "", `"r201";q=2;w=90`},
		{"GET /black", 403, forbidden + "}", "100", ""},
		{"GET /x/../%62lack", 403, forbidden + "}", "100", ""},
		{"HEAD /black", 403, "", "100", ""},
		{"GET /captcha", 403, forbidden + `,"challenge":{"vcode_len":4,"vcode_type":0}}`, "101", ""},
		{"GET /teapot", 418, "short and stout", "102", ""},
		{"GET /nothing", 204, "", "103", ""},
		{"GET /%2500", 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"malformed path: it contains a NUL"}`, "", ""},
	} {
		s, reached := serve(t, options(t, nil, engine.ModeEnforce))
		c.line = strings.Replace(c.line, "%2500", "%00", 1)
		res, body := ask(t, s, c.line)
		if res.StatusCode != c.status || body != c.body || res.Header.Get("X-Koala-Rule") != c.rule || res.Header.Get("RateLimit-Policy") != c.limited {
			t.Errorf("%s: %d %s, rule %q, policy %q; want %d %s, %q, %q", c.line, res.StatusCode, body,
				res.Header.Get("X-Koala-Rule"), res.Header.Get("RateLimit-Policy"), c.status, c.body, c.rule, c.limited)
		}
		if passed := reached.Load() == 1; passed != (c.status == 200) {
			t.Errorf("%s: reached the handler: %v", c.line, passed)
		}
	}
}

func TestLimitRefusesWith429(t *testing.T) {
	s, reached := serve(t, options(t, nil, engine.ModeEnforce))
	for range 2 {
		ask(t, s, "POST /comments")
	}
	res, body := ask(t, s, "POST /comments")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "90" || res.Header.Get("Content-Type") != "application/problem+json" || reached.Load() != 2 {
		t.Errorf("%d %v %s, %d reached the handler; want a 429 after two", res.StatusCode, res.Header, body, reached.Load())
	}
}

// Without trusted hops no header changes the address of the client.
func TestForgedAddressesAreIgnored(t *testing.T) {
	s, reached := serve(t, options(t, nil, engine.ModeEnforce))
	for _, header := range []string{"X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Koala-Param-Uid", "X-Original-URI", "X-Forwarded-Uri"} {
		ask(t, s, "POST /comments", header, "203.0.113.7")
	}
	if n := reached.Load(); n != 2 {
		t.Errorf("%d requests passed; want 2", n)
	}
}

func TestTrustedHops(t *testing.T) {
	o := options(t, nil, engine.ModeEnforce)
	o.TrustedHops = 1
	s, reached := serve(t, o)
	for range 3 {
		ask(t, s, "POST /comments", "X-Forwarded-For", "198.51.100.1, 203.0.113.7")
		ask(t, s, "POST /comments", "X-Forwarded-For", "198.51.100.1, 203.0.113.8")
	}
	if n := reached.Load(); n != 4 {
		t.Errorf("%d requests of two clients passed; want 4", n)
	}
	if res, _ := ask(t, s, "GET /"); res.StatusCode != 403 {
		t.Errorf("without X-Forwarded-For: %d; want 403", res.StatusCode)
	}
}

func TestParamsOfTheProgramOverride(t *testing.T) {
	o := options(t, nil, engine.ModeEnforce)
	o.Params = func(r *http.Request) map[string]string {
		return map[string]string{"session": r.Header.Get("X-Session")}
	}
	s, reached := serve(t, o)
	for range 2 {
		ask(t, s, "GET /", "X-Session", "a")
		ask(t, s, "GET /", "X-Session", "b")
	}
	if n := reached.Load(); n != 2 {
		t.Errorf("%d requests passed; want one per session", n)
	}
}

func TestRefuseRespondsInPlaceOfTheEntry(t *testing.T) {
	o := options(t, nil, engine.ModeEnforce)
	o.Refuse = func(w http.ResponseWriter, _ *http.Request, d *engine.Decision) {
		http.Error(w, "see the captcha page: "+d.Verdict.String(), http.StatusUnauthorized)
	}
	s, _ := serve(t, o)
	res, body := ask(t, s, "GET /captcha")
	if res.StatusCode != 401 || body != "see the captcha page: challenge\n" || res.Header.Get("X-Koala-Rule") != "101" {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
}

func TestRefuseWithoutAStatusRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(http.ResponseWriter)
		status int
		body   string
	}{
		"nothing":       {func(http.ResponseWriter) {}, 403, ""},
		"a body alone":  {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "no") }, 403, "no"},
		"a flush":       {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 403, ""},
		"an early hint": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 403, ""},
		"a status":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }, 418, ""},
	} {
		o := options(t, nil, engine.ModeEnforce)
		o.Refuse = func(w http.ResponseWriter, _ *http.Request, _ *engine.Decision) { c.refuse(w) }
		s, _ := serve(t, o)
		if res, body := ask(t, s, "GET /black"); res.StatusCode != c.status || body != c.body {
			t.Errorf("%s: %d %q; want %d %q", name, res.StatusCode, body, c.status, c.body)
		}
	}
}

func TestModes(t *testing.T) {
	for mode, word := range map[engine.Mode]string{engine.ModeObserve: "observed-deny", engine.ModeOff: "off"} {
		s, _ := serve(t, options(t, nil, mode))
		if res, _ := ask(t, s, "GET /black"); res.StatusCode != 200 || res.Header.Get("X-Koala-Decision") != word {
			t.Errorf("%s: %d, %q", mode, res.StatusCode, res.Header.Get("X-Koala-Decision"))
		}
	}
}

func TestUnavailableStore(t *testing.T) {
	for failOpen, status := range map[bool]int{false: 503, true: 200} {
		o := options(t, storetest.Failing{Err: errors.New("connection refused")}, engine.ModeEnforce)
		o.FailOpen = failOpen
		s, _ := serve(t, o)
		if res, _ := ask(t, s, "POST /comments"); res.StatusCode != status {
			t.Errorf("fail open %v: %d; want %d", failOpen, res.StatusCode, status)
		}
		if res, _ := ask(t, s, "GET /black"); res.StatusCode != 403 {
			t.Errorf("fail open %v, a black list: %d; want 403", failOpen, res.StatusCode)
		}
	}
}

// A request whose context ends before it is decided does not pass. Its client gets a
// response, because it still waits if an earlier handler set the deadline.
func TestEndedContextRefuses(t *testing.T) {
	late, stop := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer stop()
	gone, leave := context.WithCancel(context.Background())
	leave()
	for name, c := range map[string]struct {
		ctx    context.Context
		logged bool
	}{"a deadline that has passed": {late, true}, "a client that has disconnected": {gone, false}} {
		var log bytes.Buffer
		o := options(t, nil, engine.ModeEnforce)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		reached := false
		h := middleware.New(o)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(c.ctx, http.MethodPost, "/comments", http.NoBody))
		if w.Code != http.StatusServiceUnavailable || reached || (log.Len() > 0) != c.logged {
			t.Errorf("%s: %d, reached %v, log %q; want 503, false, logged %v", name, w.Code, reached, &log, c.logged)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	m := memory.New(memory.Options{})
	defer m.Close()
	set, _ := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(strings.Replace(ruleFile, "count=2;", "count=1000000000;", 1))}}, rules.Options{})
	h := middleware.New(middleware.Options{Engine: engine.New(set, wiring.CountIn(m))})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest("POST", "/comments", nil)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		h.ServeHTTP(w, r)
	}
}

// Options without an engine, or with one that has no rules, let nothing through.
func TestZeroOptionsRefuse(t *testing.T) {
	for name, o := range map[string]middleware.Options{
		"zero":                    {},
		"zero engine":             {Engine: new(engine.Engine)},
		"zero engine, fail open":  {Engine: new(engine.Engine), FailOpen: true},
		"no rules":                {Engine: engine.New(nil)},
		"no rules, fail open":     {Engine: engine.New(nil), FailOpen: true},
		"a zero rule set":         {Engine: engine.New(new(rules.Set)), FailOpen: true},
		"no rules, negative hops": {Engine: engine.New(nil), TrustedHops: -1},
	} {
		o.Logger = slog.New(slog.DiscardHandler)
		s, reached := serve(t, o)
		if res, _ := ask(t, s, "GET /"); res.StatusCode != http.StatusServiceUnavailable || reached.Load() != 0 {
			t.Errorf("%s: %d, %d reached the handler; want 503", name, res.StatusCode, reached.Load())
		}
	}
}

func TestNilHandlerIsNotFound(t *testing.T) {
	w := httptest.NewRecorder()
	middleware.New(options(t, nil, engine.ModeEnforce))(nil).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("%d; want 404", w.Code)
	}
}

func TestDoorIsItsNameInRules(t *testing.T) {
	if middleware.Door != doorname.Middleware {
		t.Errorf("the door is %q; rules know %q", middleware.Door, doorname.Middleware)
	}
}
