package probe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/probe"
)

// gateway is a gateway with a limit per client.
type gateway struct {
	limit int                                      // requests that pass per client
	cost  int                                      // hits per request; 0 means 1
	key   func(*http.Request) string               // of a client; nil for one client
	pass  func(http.ResponseWriter)                // changes responses to requests that pass
	deny  func(http.ResponseWriter, int)           // replaces the refusal; the number counts refusals
	hook  func(http.ResponseWriter, *http.Request) // runs first
	count map[string]int
	total int // refusals
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.hook != nil {
		g.hook(w, r)
	}
	key := ""
	if g.key != nil {
		key = g.key(r)
	}
	cost := max(g.cost, 1)
	left := g.limit - g.count[key]
	if left < cost {
		g.total++
		if g.deny != nil {
			g.deny(w, g.total)
			return
		}
		refuse(w)
		return
	}
	g.count[key] += cost
	w.Header().Set("RateLimit-Limit", strconv.Itoa(g.limit))
	w.Header().Set("RateLimit-Remaining", strconv.Itoa(left-cost))
	if g.pass != nil {
		g.pass(w)
	}
}

// refuse answers as koalagate's samples do.
func refuse(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Koala-Decision", "deny")
	h.Set("X-Koala-Rule", "201")
	h.Set("RateLimit-Limit", "3")
	h.Set("RateLimit-Remaining", "0")
	h.Set("Retry-After", "60")
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusTooManyRequests)
	fmt.Fprint(w, `{"status":429}`)
}

// refuseWith changes the headers of a refusal.
func refuseWith(change func(http.Header)) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) {
		recorder := httptest.NewRecorder()
		refuse(recorder)
		change(recorder.Header())
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes()) // the client notices a failure
	}
}

// answer answers with a status, a type and a body.
func answer(status int, kind, body string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func run(t *testing.T, url string, change func(*probe.Options)) string {
	t.Helper()
	target, err := probe.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	var streamed strings.Builder
	o := probe.Options{
		Target: target, Requests: 10, Timeout: 10 * time.Second, Params: []string{"uid"}, Peer: probe.DefaultPeer, Path: "/",
		OnItem: func(i probe.Item) { i.WriteText(&streamed) },
	}
	if change != nil {
		change(&o)
	}
	report, err := probe.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	report.WriteText(&text)
	if want := streamed.String() + report.Summary() + "\n"; text.String() != want {
		t.Errorf("the report is\n%s\nbut its items were\n%s", &text, want)
	}
	return text.String()
}

func TestProbeOfAGateway(t *testing.T) {
	t.Parallel()
	byHeader := func(name string) func(*http.Request) string {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	header := func(pairs ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(pairs); i += 2 {
				w.Header().Set(pairs[i], pairs[i+1])
			}
		}
	}
	without := func(names ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for _, name := range names {
				w.Header().Del(name)
			}
		}
	}
	for name, c := range map[string]struct {
		gateway gateway
		options func(*probe.Options)
		want    []string
		faults  string
	}{
		"as it should be": {gateway{limit: 3}, nil, []string{
			"ok    refusal      request 4 is refused with 429, by rule 201\n", "ok    headers      the quota is 3, left: 0; Retry-After: 60\n",
			"ok    body         a problem document of status 429\n", "ok    connections  kept across refusals, ", "ok    forging      all 17 forged requests are refused\n",
		}, "no faults"},
		"refused at once":      {gateway{}, nil, []string{"request 1 is refused with 429"}, "no faults"},
		"no limit":             {gateway{limit: 100, pass: without("RateLimit-Limit")}, nil, []string{"none of 10 requests was refused, and no response reports a quota: the gateway is silently open"}, "1 fault"},
		"a large limit":        {gateway{limit: 100}, nil, []string{"none of 10 requests was refused, and the quota is 100, left: 90"}, "1 fault"},
		"observe":              {gateway{limit: 100, pass: header("X-Koala-Decision", "observed-deny")}, nil, []string{"the door is in mode observe and lets refused requests pass: observed-deny"}, "1 fault"},
		"off":                  {gateway{limit: 100, pass: header("X-Koala-Decision", "off")}, nil, []string{"the door is off and lets all requests pass"}, "1 fault"},
		"500":                  {gateway{limit: 3, deny: answer(500, "text/html", "x")}, nil, []string{"FAULT status       after requests that passed, one is answered with 500 Internal Server Error, which is not a refusal"}, "1 fault"},
		"403":                  {gateway{deny: answer(403, "text/html", "x")}, nil, []string{"FAULT status       the first request is answered with 403 Forbidden, without koalagate's status"}, "1 fault"},
		"404":                  {gateway{deny: answer(404, "text/html", "x")}, nil, []string{"FAULT status       the first request is answered with 404 Not Found\n", "grpc://HOST:PORT"}, "1 fault"},
		"no Retry-After":       {gateway{limit: 3, deny: refuseWith(func(h http.Header) { h.Del("Retry-After") })}, nil, []string{"FAULT headers      the refusal has no Retry-After"}, "1 fault"},
		"a double header":      {gateway{limit: 3, deny: refuseWith(func(h http.Header) { h.Add("Retry-After", "5") })}, nil, []string{"FAULT headers      Retry-After occurs 2 times"}, "1 fault"},
		"no quota":             {gateway{limit: 3, deny: refuseWith(func(h http.Header) { h.Del("RateLimit-Limit"); h.Del("X-Koala-Decision") })}, nil, []string{"note  headers      the refusal reports no quota", "note  headers      no X-Koala-Decision"}, "no faults"},
		"quota in X-RateLimit": {gateway{limit: 3, deny: refuseWith(func(h http.Header) { h.Del("RateLimit-Limit"); h.Set("X-RateLimit-Limit", "9") })}, nil, []string{"the quota is 9, left: "}, "no faults"},
		"quota of a policy":    {gateway{limit: 3, deny: refuseWith(func(h http.Header) { h.Set("RateLimit-Policy", `"a";q=3`); h.Set("RateLimit", `"a";r=0`) })}, nil, []string{`the quota is "a";q=3, left: "a";r=0;`}, "no faults"},
		"quota not shown":      {gateway{limit: 3, pass: without("RateLimit-Limit")}, nil, []string{"note  headers      responses to requests that pass do not report the quota"}, "no faults"},
		"a cost":               {gateway{limit: 8, cost: 2}, nil, []string{"note  weight       each request takes 2 of its quota", "nginx checks again for `index`"}, "no faults"},
		"an HTML page":         {gateway{limit: 3, deny: answer(429, "text/html", "<p>")}, nil, []string{"FAULT body         the body is an HTML page"}, "1 fault"},
		"no body":              {gateway{limit: 3, deny: answer(429, "text/plain", "")}, nil, []string{"FAULT body         the refusal has no body"}, "1 fault"},
		"no body of HEAD":      {gateway{limit: 3}, func(o *probe.Options) { o.Method = http.MethodHead }, nil, "no faults"},
		"another body":         {gateway{limit: 3, deny: answer(429, "text/plain", "slow down")}, nil, []string{"ok    body         9 bytes of text/plain, set by the rule"}, "no faults"},
		"a truncated body":     {gateway{limit: 3, deny: answer(429, "application/problem+json", `{"sta`)}, nil, []string{"FAULT body         the problem document is truncated or invalid"}, "1 fault"},
		"another status":       {gateway{limit: 3, deny: answer(429, "application/problem+json", `{"status":403}`)}, nil, []string{"the problem document has status 403 Forbidden, but the response has 429 Too Many Requests"}, "1 fault"},
		"closed connections":   {gateway{limit: 3, deny: refuseWith(func(h http.Header) { h.Set("Connection", "close") })}, nil, []string{"FAULT connections  8 refused requests used 8 connections"}, "1 fault"},
		"one closed connection": {gateway{limit: 3, deny: func(w http.ResponseWriter, n int) {
			if n == 3 {
				w.Header().Set("Connection", "close")
			}
			refuse(w)
		}}, nil, []string{"note  connections  1 connection ended during 8 refused requests; most were kept"}, "no faults"},
		"a trusted address": {gateway{limit: 3, key: byHeader("X-Forwarded-For")}, nil, []string{"FAULT forging      a request over the limit passes with X-Forwarded-For: 198.51.100.201", "overwrite the header with the address"}, "1 fault"},
		"a trusted query":   {gateway{limit: 3, key: func(r *http.Request) string { return r.URL.Query().Get("uid") }}, nil, []string{"a request over the limit passes with the query uid=koalagate-probe", "end the `uri` with a question mark"}, "1 fault"},
		"a trusted param":   {gateway{limit: 3, key: byHeader("X-Koala-Param-user-id")}, func(o *probe.Options) { o.Params = []string{"user_id"} }, []string{"passes with X-Koala-Param-user-id: koalagate-probe"}, "1 fault"},
		"a removed header":  {gateway{limit: 3, key: byHeader("Connection")}, nil, []string{"FAULT forging      a request over the limit passes with Connection: X-Koala-Param-uid, X-User-Id", "the lines @odd_connection"}, "1 fault"},
		"names refused with 400": {gateway{
			hook: func(w http.ResponseWriter, r *http.Request) { w.Header()["Names"] = r.Header["Connection"] },
			deny: func(w http.ResponseWriter, n int) { // the first request is refused, too
				if w.Header().Get("Names") != "" {
					answer(http.StatusBadRequest, "text/plain", "no")(w, n)
					return
				}
				refuse(w)
			},
		}, nil, []string{"all 17 forged requests are refused"}, "no faults"},
		"a chosen header": {
			gateway{limit: 3, key: byHeader("X-User-Id")},
			func(o *probe.Options) { o.Header = http.Header{"X-User-Id": {"ann"}, "Host": {"example.org"}} },
			[]string{"note  choosing     with another X-User-Id the request passes"},
			"no faults",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := c.gateway
			g.count = make(map[string]int)
			server := httptest.NewServer(&g)
			defer server.Close()
			got := run(t, server.URL+"/api?page=1", c.options)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if !strings.HasSuffix(got, "\n"+c.faults+"\n") {
				t.Errorf("want %s at the end", c.faults)
			}
			if t.Failed() {
				t.Log(got)
			}
		})
	}
}

func TestProbeStopsWhenTheWindowEnds(t *testing.T) {
	for name, c := range map[string]struct {
		passFrom int // number of the request that passes again
		want     string
	}{
		"during refusals":  {6, "note  refusal      a later request passed: the window ended"},
		"during forgeries": {14, "note  forging      the window ended"},
	} {
		n := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n++; n < c.passFrom {
				refuse(w)
			}
		}))
		if got := run(t, server.URL, nil); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "no faults\n") {
			t.Errorf("%s: want %q in\n%s", name, c.want, got)
		}
		server.Close()
	}
}

func TestProbeOfAnUnreachableGateway(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if got := run(t, server.URL, nil); !strings.Contains(got, "FAULT reach        ") || !strings.Contains(got, "connection refused") {
		t.Error(got)
	}
	n := 0
	dying := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n++; n > 2 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer dying.Close()
	if got := run(t, dying.URL, nil); !strings.Contains(got, "The gateway stopped answering during the probe.") {
		t.Error(got)
	}
}

func TestRunRejectsInvalidOptions(t *testing.T) {
	target, err := probe.ParseTarget("http://127.0.0.1:1/")
	if err != nil {
		t.Fatal(err)
	}
	valid := probe.Options{Target: target, Requests: 1, Timeout: time.Second}
	for want, change := range map[string]func(*probe.Options){
		"missing URL; want http://":                        func(o *probe.Options) { o.Target = nil },
		"--requests 0 is out of range; want 1 … 10000":     func(o *probe.Options) { o.Requests = 0 },
		"--requests 10001 is out of range; want 1 … 10000": func(o *probe.Options) { o.Requests = 10001 },
		"--timeout 0s must be positive":                    func(o *probe.Options) { o.Timeout = 0 },
		"--descriptor needs --domain":                      func(o *probe.Options) { o.Descriptor = entries("a", "b") },
	} {
		o := valid
		change(&o)
		if _, err := probe.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, valid := range map[string]bool{
		"http://a": true, "https://a/b?c": true, "grpc://a:1": true, "grpcs://a:1": true, "unix:/a": true,
		"127.0.0.1:8080/": false, "ftp://a": false, "http:///a": false, "unix://a/b": false, "unix:a": false, "": false,
	} {
		if _, err := probe.ParseTarget(text); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTLSFilesMustFitTheScheme(t *testing.T) {
	for want, c := range map[string]struct {
		scheme string
		files  probe.TLSFiles
	}{
		"require https:// or grpcs://":        {"grpc", probe.TLSFiles{CA: "ca.pem"}},
		"--cert and --key require each other": {"grpcs", probe.TLSFiles{Cert: "a.pem"}},
		"--ca: open ":                         {"https", probe.TLSFiles{CA: "missing.pem"}},
		"--ca: no PEM certificate in ":        {"https", probe.TLSFiles{CA: "http_test.go"}},
		"--cert a.pem with --key b.pem: ":     {"https", probe.TLSFiles{Cert: "a.pem", Key: "b.pem"}},
	} {
		if _, err := c.files.Config(c.scheme); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	if config, err := (probe.TLSFiles{}).Config("http"); config != nil || err != nil {
		t.Errorf("http: %v, %v", config, err)
	}
	if config, err := (probe.TLSFiles{ServerName: "a"}).Config("https"); err != nil || config.ServerName != "a" {
		t.Errorf("https: %v, %v", config, err)
	}
}
