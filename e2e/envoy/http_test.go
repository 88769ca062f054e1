package envoy_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// httpAuthorizer is a service for ext_authz over HTTP with scripted answers for each
// path after /auth.
type httpAuthorizer struct {
	mu       sync.Mutex
	answer   map[string]http.HandlerFunc
	requests map[string]*http.Request
}

// ServeHTTP answers by the script of the path, and allows without a script.
func (a *httpAuthorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/auth")
	a.requests[path] = r
	if answer := a.answer[path]; answer != nil {
		answer(w, r)
	}
}

// httpFacts is an Envoy whose ext_authz filters use HTTP.
type httpFacts struct {
	service *httpAuthorizer
	app     *mirror
	envoy   *e2e.Gateway
}

func extAuthzHTTP(more, response string) string {
	return `{ name: envoy.filters.http.ext_authz, typed_config: { "@type": ` + rig.TypeURL + `filters.http.ext_authz.v3.ExtAuthz` + rig.Optional("", more) +
		`, http_service: { path_prefix: /auth, server_uri: { uri: "http://service", cluster: service, timeout: ` + rig.Ample + ` }` + rig.Optional("authorization_response: ", response) + ` } } }`
}

// How Envoy treats the answers of an ext_authz service over HTTP, and what it sends:
// docs/gateways/facts.md.
func TestEnvoyHTTPExtAuthzFacts(t *testing.T) {
	h := rig.NewFixture(t)
	f := &httpFacts{service: &httpAuthorizer{answer: map[string]http.HandlerFunc{}, requests: map[string]*http.Request{}}, app: newMirror(t)}
	server := httptest.NewServer(f.service)
	t.Cleanup(server.Close)
	f.envoy = rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(f.app.Address, rig.Cluster("service", server.Listener.Addr().String(), ""),
		rig.Listener{Name: "bare", Filters: []string{extAuthzHTTP(`status_on_error: { code: 503 }`, "")}},
		rig.Listener{Name: "listed", Filters: []string{extAuthzHTTP(
			`allowed_headers: { patterns: [ { exact: x-forwarded-for }, { exact: cookie } ] }`,
			`{ allowed_upstream_headers: { patterns: [ { exact: x-up } ] }, allowed_client_headers_on_success: { patterns: [ { exact: x-down } ] } }`)}},
	)))(t)

	t.Run("GW-21 only 200 allows", f.only200Allows)
	t.Run("GW-22 an answer below 500 is relayed", f.relayed)
	t.Run("GW-23 only listed headers are sent", f.sent)
	t.Run("GW-24 only listed headers are passed on", f.passedOn)
}

func (f *httpFacts) on(path string, status int, body string, headers ...string) {
	f.service.mu.Lock()
	defer f.service.mu.Unlock()
	f.service.answer[path] = func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Add(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func (f *httpFacts) get(t *testing.T, on, path string, headers ...string) rig.Reply {
	t.Helper()
	return rig.Send(t, "GET", "http://"+f.envoy.Listeners[on]+path, headers...)
}

func (f *httpFacts) only200Allows(t *testing.T) {
	for status, body := range map[int]string{201: "auth", 204: "", 206: "auth", 302: "auth"} {
		path := "/status-" + http.StatusText(status)
		f.on(strings.ReplaceAll(path, " ", ""), status, body)
		wantIs(t, f.get(t, "bare", strings.ReplaceAll(path, " ", "")), status, body)
	}
	f.on("/allowed", 200, "auth")
	wantIs(t, f.get(t, "bare", "/allowed"), 200, "app")
}

func (f *httpFacts) relayed(t *testing.T) {
	f.on("/refused", 429, `{"status":429}`, "Content-Type: application/problem+json", "Retry-After: 9", "X-Any: 1", "X-Any: 2")
	r := f.get(t, "bare", "/refused")
	wantIs(t, r, 429, `{"status":429}`)
	rig.WantHeader(t, r.Header, "Content-Type", "application/problem+json")
	rig.WantHeader(t, r.Header, "Retry-After", "9")
	rig.WantHeader(t, r.Header, "X-Any", "1", "2")
	for _, status := range []int{500, 503} {
		f.on("/failed", status, "broken", "X-Any: 1")
		failed := f.get(t, "bare", "/failed")
		wantIs(t, failed, 503, "")
		rig.WantHeader(t, failed.Header, "X-Any")
	}
}

func (f *httpFacts) sent(t *testing.T) {
	headers := []string{"X-User: ann", "Cookie: c=1", "Cookie: d=2", "Authorization: Bearer t", "X-Forwarded-For: 198.51.100.66"}
	f.get(t, "bare", "/sent-bare?q=1", headers...)
	bare := f.service.requests["/sent-bare"]
	if bare.Method != "GET" || bare.URL.RawQuery != "q=1" || bare.Host != f.envoy.Listeners["bare"] {
		t.Errorf("the check is %s %s at %s; want the client's own method, query and host", bare.Method, bare.URL, bare.Host)
	}
	rig.WantHeader(t, bare.Header, "Authorization", "Bearer t")
	rig.WantHeader(t, bare.Header, "X-User")
	rig.WantHeader(t, bare.Header, "Cookie")
	rig.WantHeader(t, bare.Header, "X-Forwarded-For")

	f.get(t, "listed", "/sent-listed", headers...)
	listed := f.service.requests["/sent-listed"]
	rig.WantHeader(t, listed.Header, "X-User")
	rig.WantHeader(t, listed.Header, "Cookie", "c=1,d=2")
	forwarded := strings.Join(listed.Header.Values("X-Forwarded-For"), ",")
	if first, last := strings.Index(forwarded, "198.51.100.66"), strings.LastIndexByte(forwarded, ','); first != 0 || last < 0 {
		t.Errorf("X-Forwarded-For is %q; want the client's value at the left, and Envoy's at the right", forwarded)
	}
}

func (f *httpFacts) passedOn(t *testing.T) {
	f.on("/handed", 200, "", "X-Up: 1", "X-Down: 2", "X-Other: 3")
	r := f.get(t, "listed", "/handed", "X-Up: client", "X-Other: client")
	rig.WantHeader(t, r.Header, "X-Down", "2")
	rig.WantHeader(t, r.Header, "X-Other")
	got := f.app.reached("/handed")[0].Header
	rig.WantHeader(t, got, "X-Up", "1")
	rig.WantHeader(t, got, "X-Other", "client")
	rig.WantHeader(t, got, "X-Down")
	f.on("/handed-none", 200, "")
	f.get(t, "listed", "/handed-none", "X-Up: client")
	rig.WantHeader(t, f.app.reached("/handed-none")[0].Header, "X-Up", "client") // so the sample must remove it
}

// The HTTP sample behaves as its comments say.
func TestEnvoyHTTPSample(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.Stage.Path("examples/gateway.conf"))
	app := h.App()
	g := h.EnvoyHTTP(app, k)
	t.Run("GW-25 a refusal is relayed completely", func(t *testing.T) { rig.TrueRefusal(t, g, "X-User-Id: refused-http") })
	t.Run("GW-26 the application gets the decision", func(t *testing.T) {
		r := rig.WantStatus(t, 200, "GET", g.URL+"/other", "X-Koala-Decision: forged", "X-Koala-Rule: 9", "X_Koala_Rule: 9", "X-Koala-Param-Act: comment")
		var got e2e.Arrived
		want := e2e.Arrived{Method: "GET", Path: "/other", Decision: "none"}
		if err := json.Unmarshal([]byte(r.Body), &got); err != nil || got != want {
			t.Errorf("the application got %s, %v; want %+v", r.Body, err, want)
		}
	})
	t.Run("GW-27 clients choose neither act nor path nor address over HTTP", func(t *testing.T) { rig.Forge(t, g, app, "X-User-Id: forger-http") })
	rig.WantStatus(t, 200, "GET", g.URL+"/healthz")
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	rig.WantStatus(t, 503, "GET", g.URL+"/api/articles/1")
	rig.WantStatus(t, 200, "GET", g.URL+"/healthz")
}
