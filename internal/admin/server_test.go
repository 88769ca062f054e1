package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/admin"
)

const changeToken = "token-for-changes"

func options() admin.Options {
	return admin.Options{
		Status: func() admin.Status {
			return admin.Status{
				Ready: true, Generation: 3, Hash: "abc", Rules: 5, LoadedAt: time.Unix(1780286400, 0).UTC(),
				LastError: "rules.conf:1:1: error", Store: "redis",
			}
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a_metric 1\n")) }),
		Modes:   new(engine.Modes),
		Version: admin.Version{Version: "1.2.3", Revision: "abc", Go: "go1.26"},
		Hosts:   []string{"koala.example"},
		Tokens:  &access.Tokens{Change: changeToken, Made: true},
	}
}

// request sends a request for a host name, with headers as alternating names and
// values.
func request(h http.Handler, method, path, host string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPages(t *testing.T) {
	h := admin.New(options())
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"HEAD", "/healthz", 200, ""},
		{"GET", "/readyz", 200, `"store": "redis"`},
		{"GET", "/metrics", 200, "a_metric 1"},
		{"GET", "/version", 200, `"version": "1.2.3"`},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{"POST", "/debug/pprof/symbol", 405, ""},
		{"POST", "/readyz", 405, ""},
		{"GET", "/nothing", 404, ""},
	} {
		w := request(h, c.method, c.path, "localhost:9982")
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s; want %d with %q", c.method, c.path, w.Code, w.Body, c.code, c.want)
		}
	}
}

// The instance answers one reader of metrics, and one reader of profiles, at a time: another one gets 429
// after a moment, and neither keeps the other kind or health waiting.
func TestOnePlaceForMetricsAndOneForProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := make(chan struct{}), make(chan struct{})
		o := options()
		o.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(began); <-release })
		h := admin.New(o)
		ended := make(chan struct{})
		go func() { request(h, "GET", "/metrics", "localhost"); close(ended) }()
		<-began
		for path, want := range map[string]int{"/metrics": 429, "/debug/pprof/heap": 200, "/healthz": 200, "/readyz": 200} {
			w := request(h, "GET", path, "localhost")
			if w.Code != want || (want == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%s while metrics are read: %d %v; want %d", path, w.Code, w.Header(), want)
			}
		}
		close(release)
		<-ended
		ended = make(chan struct{})
		go func() { request(h, "GET", "/debug/pprof/heap?seconds=30", "localhost"); close(ended) }()
		synctest.Wait()
		for path, want := range map[string]int{"/debug/pprof/heap": 429, "/debug/pprof/profile?seconds=1": 429, "/debug/pprof/": 429, "/version": 200} {
			w := request(h, "GET", path, "localhost")
			if w.Code != want || (want == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%s while a profile is taken: %d %v; want %d", path, w.Code, w.Header(), want)
			}
		}
		<-ended
	})
}

// A profile cannot have the garbage collector run, and ends in time whatever its caller asks.
func TestProfilesAreBounded(t *testing.T) {
	h := admin.New(options())
	runs := func() uint32 {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.NumForcedGC
	}
	before := runs()
	if w := request(h, "GET", "/debug/pprof/heap?debug=1&gc=1", "localhost"); w.Code != 200 || runs() != before {
		t.Errorf("%d, %d forced runs of the garbage collector; want 200 and none", w.Code, runs()-before)
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if w := request(h, "GET", "/debug/pprof/heap?seconds=86400", "localhost"); time.Since(begin) > 61*time.Second {
			t.Errorf("%d after %v; want an answer within a minute", w.Code, time.Since(begin))
		}
	})
}

func TestReadyzDescribesTheActiveRules(t *testing.T) {
	w := request(admin.New(options()), "GET", "/readyz", "127.0.0.1:9982")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"ready": true, "generation": 3.0, "hash": "abc", "rules": 5.0, "loaded_at": "2026-06-01T04:00:00Z",
		"last_error": "rules.conf:1:1: error", "store": "redis",
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %v; want %v", key, got[key], value)
		}
	}
}

func TestNotReadyIs503ButHealthy(t *testing.T) {
	o := options()
	o.Status = func() admin.Status { return admin.Status{Reason: "draining"} }
	h := admin.New(o)
	if w := request(h, "GET", "/readyz", ""); w.Code != 503 || !strings.Contains(w.Body.String(), `"reason": "draining"`) {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	if w := request(h, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("/healthz: %d", w.Code)
	}
}

func TestUnknownHostNamesAreRejected(t *testing.T) {
	h := admin.New(options())
	for host, code := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST.:1": 200, "127.0.0.1:9982": 200, "10.1.2.3": 200, "[::1]:9982": 200, "[fe80::1]": 200,
		"koala.example": 200, "Koala.Example:9982": 200,
		"evil.example": 421, "koala.example.evil": 421, "127.0.0.1.evil:9982": 421, "localhost.evil": 421,
	} {
		if w := request(h, "GET", "/metrics", host); w.Code != code {
			t.Errorf("host %q: %d; want %d", host, w.Code, code)
		}
	}
}

// Web pages of other origins may read what needs no token, and change nothing.
func TestWebPagesOfOtherOriginsAreRefused(t *testing.T) {
	o := options()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a page")) })
	o.API, o.Page = page, page
	var reasons []string
	o.Refused = func(reason string) { reasons = append(reasons, reason) }
	h := admin.New(o)
	refused := 0
	for _, c := range []struct {
		method, path string
		code         int
		headers      []string
	}{
		{"POST", "/modes", 403, []string{"Origin", "http://evil.example"}},
		{"POST", "/modes", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"POST", "/modes", 400, []string{"Origin", "http://localhost:9982", "Authorization", "Bearer " + changeToken}}, // without a body
		{"GET", "/healthz", 200, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/readyz", 200, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/", 302, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/ui/", 200, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/metrics", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/metrics", 403, []string{"Sec-Fetch-Site", "same-site"}},
		{"GET", "/metrics", 403, []string{"Origin", "http://localhost:3000"}},
		{"HEAD", "/metrics", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/debug/pprof/profile", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/modes", 403, []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer " + changeToken}},
		{"GET", "/api/v1/exceptions", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", "/metrics", 200, []string{"Sec-Fetch-Site", "none"}}, // an operator typed the address
		{"GET", "/api/v1/rules", 200, []string{"Sec-Fetch-Site", "same-origin"}},
		{"GET", "/metrics", 200, nil},
	} {
		if w := request(h, c.method, c.path, "localhost:9982", c.headers...); w.Code != c.code {
			t.Errorf("%s %s with %v: %d; want %d", c.method, c.path, c.headers, w.Code, c.code)
		}
		if c.code == 403 {
			refused++
		}
	}
	if want := slices.Repeat([]string{"web_page"}, refused); !slices.Equal(reasons, want) {
		t.Errorf("counted %q; want %q", reasons, want)
	}
}

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name    string
		token   string
		exposed bool
		header  string
		code    int
	}{
		{"none needed on loopback", "", false, "", 200},
		{"none set beyond loopback", "", true, "", 403},
		{"empty token beyond loopback", "", true, "Bearer ", 403},
		{"missing", "good-token", true, "", 401},
		{"wrong", "good-token", true, "Bearer bad-token", 401},
		{"a prefix of it", "good-token", true, "Bearer good", 401},
		{"wrong scheme", "good-token", true, "Basic good-token", 401},
		{"correct", "good-token", true, "Bearer good-token", 200},
		{"lower-case scheme", "good-token", true, "bearer good-token", 200},
		{"required on loopback too", "good-token", false, "", 401},
		{"that for reading", "good-token", true, "Bearer read-token", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Tokens = &access.Tokens{Change: c.token, Exposed: c.exposed}
			if c.token != "" {
				o.Tokens.Read = "read-token"
			}
			h := admin.New(o)
			for _, path := range []string{"/metrics", "/version", "/debug/pprof/", "/debug/pprof/heap"} {
				if w := request(h, "GET", path, "localhost", "Authorization", c.header); w.Code != c.code {
					t.Errorf("%s: %d; want %d", path, w.Code, c.code)
				}
			}
			for _, path := range []string{"/healthz", "/readyz"} {
				if w := request(h, "GET", path, "localhost"); w.Code != 200 {
					t.Errorf("%s: %d; probes send no token", path, w.Code)
				}
			}
		})
	}
}

// Wrong tokens are slowed at the pages, too, and probes are not.
func TestWrongTokensAreSlowed(t *testing.T) {
	o := options()
	o.Tokens = &access.Tokens{Change: "good-token", Exposed: true}
	h := admin.New(o)
	for i, token := range []string{"a", "b", "c", "d", "e", "f", "good-token"} {
		want := http.StatusUnauthorized
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		w := request(h, "GET", "/metrics", "localhost", "Authorization", "Bearer "+token)
		if w.Code != want || (w.Header().Get("Retry-After") == "") != (want == http.StatusUnauthorized) {
			t.Errorf("token %d: %d, Retry-After %q; want %d", i+1, w.Code, w.Header().Get("Retry-After"), want)
		}
	}
	if w := request(h, "GET", "/readyz", "localhost"); w.Code != http.StatusOK {
		t.Errorf("/readyz: %d", w.Code)
	}
}

// The page and the way to it need no token, and only known host names reach them.
func TestPage(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := admin.New(admin.Options{Page: page, Metrics: page, Tokens: &access.Tokens{Change: "secret", Exposed: true}})
	for target, want := range map[string]int{
		"http://127.0.0.1/": http.StatusFound, "http://127.0.0.1/ui/": http.StatusTeapot, "http://127.0.0.1/ui/x.js": http.StatusTeapot,
		"http://evil.example/ui/": http.StatusMisdirectedRequest, "http://evil.example/": http.StatusMisdirectedRequest, "http://127.0.0.1/metrics": http.StatusUnauthorized,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d; want %d", target, w.Code, want)
		}
	}
}
