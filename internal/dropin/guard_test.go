package dropin_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/peer"
)

const jsonType = "application/json"

// guarded are pages that count the calls that reach the limits.
type guarded struct {
	pages   *dropin.Pages
	calls   int
	refused []string
}

func newGuarded() *guarded {
	g := &guarded{}
	refused := func(reason string) { g.refused = append(g.refused, reason) }
	quiet := slog.New(slog.DiscardHandler)
	g.pages = &dropin.Pages{
		Keeper: keeper(new(loads)), Draining: func() bool { return false }, TrustedProxies: peer.PrivateRanges(),
		Statistics: func(w io.Writer) error { _, err := io.WriteString(w, "name: 1\n"); return err },
		Calls:      dropin.Guard{Hosts: []string{"limits.example"}, Setting: "CALLS", Refused: refused, Logger: quiet},
		Operators:  dropin.Guard{Hosts: []string{"debug.example"}, Setting: "DEBUG", Refused: refused, Logger: quiet},
		Decide: func(context.Context, []byte) ([]byte, error) {
			g.calls++
			return proto.Marshal(&rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK})
		},
	}
	return g
}

// caller is the origin of a request: headers are alternating names and values.
type caller struct {
	host, remote string
	headers      []string
}

// ask returns the status and the body of a page.
func (c caller) ask(h http.Handler, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, "http://placeholder"+path, strings.NewReader(body))
	r.Host, r.RemoteAddr = c.host, "127.0.0.1:4711"
	if c.remote != "" {
		r.RemoteAddr = c.remote
	}
	for i := 0; i < len(c.headers); i += 2 {
		r.Header.Set(c.headers[i], c.headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// The calls of web pages count nothing at /json, and give no hits back: whatever a page of
// another site, of another port or of a name that leads here can send without asking first.
func TestWebPagesCountNothing(t *testing.T) {
	const (
		local = "127.0.0.1:8080"
		form  = "application/x-www-form-urlencoded"
	)
	for name, c := range map[string]struct {
		from   caller
		status int
		reason string
	}{
		"a foreign origin":              {caller{host: local, headers: []string{"Content-Type", jsonType, "Origin", "https://evil.example"}}, 403, "web_page"},
		"a foreign origin with text":    {caller{host: local, headers: []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}}, 403, "web_page"},
		"a form":                        {caller{host: local, headers: []string{"Content-Type", form, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}}, 403, "web_page"},
		"a form of a sandbox":           {caller{host: local, headers: []string{"Content-Type", "text/plain", "Origin", "null"}}, 403, "web_page"},
		"a beacon without a type":       {caller{host: local, headers: []string{"Origin", "https://evil.example"}}, 403, "web_page"},
		"another port of this machine":  {caller{host: local, headers: []string{"Content-Type", jsonType, "Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site"}}, 403, "web_page"},
		"a request without an origin":   {caller{host: local, headers: []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"}}, 403, "web_page"},
		"a rebound name":                {caller{host: "evil.example:8080", headers: []string{"Content-Type", jsonType, "Origin", "http://evil.example:8080"}}, 421, "host"},
		"a rebound name, same origin":   {caller{host: "evil.example:8080", headers: []string{"Content-Type", jsonType, "Sec-Fetch-Site", "same-origin"}}, 421, "host"},
		"a rebound name, no headers":    {caller{host: "evil.example", headers: []string{"Content-Type", jsonType}}, 421, "host"},
		"a name of the debug address":   {caller{host: "debug.example", headers: []string{"Content-Type", jsonType}}, 421, "host"},
		"a form of its own origin":      {caller{host: local, headers: []string{"Content-Type", form, "Origin", "http://" + local}}, 415, "content_type"},
		"no type from its own origin":   {caller{host: local, headers: []string{"Origin", "http://" + local}}, 415, "content_type"},
		"a form of an old browser":      {caller{host: local, headers: []string{"Content-Type", form, "Accept-Language", "en"}}, 415, "content_type"},
		"text of a program":             {caller{host: local, headers: []string{"Content-Type", "text/plain"}}, 415, "content_type"},
		"a malformed type":              {caller{host: local, headers: []string{"Content-Type", ";"}}, 415, "content_type"},
		"a multipart form of a program": {caller{host: local, headers: []string{"Content-Type", "multipart/form-data; boundary=x"}}, 415, "content_type"},
		"a peer that is not trusted":    {caller{host: local, remote: "203.0.113.7:1", headers: []string{"Content-Type", jsonType}}, 403, "untrusted"},
	} {
		for _, body := range []string{
			`{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]}`,
			`{"domain":"d","hitsAddend":1,"descriptors":[{"isNegativeHits":true,"hitsAddend":"1","entries":[{"key":"k"}]}]}`,
		} {
			for _, method := range []string{"POST", "PUT", "GET"} {
				g := newGuarded()
				status, text := c.from.ask(g.pages.HTTP(http.NotFoundHandler()), method, "/json", body)
				if status != c.status || g.calls != 0 || len(g.refused) != 1 || g.refused[0] != c.reason {
					t.Errorf("%s, %s: %d %s, %d calls, refused %q; want %d and %s", name, method, status, text, g.calls, g.refused, c.status, c.reason)
				}
			}
		}
	}
}

// Programs call /json as they call envoyproxy/ratelimit, and probes any host name.
func TestProgramsCallJSON(t *testing.T) {
	const body = `{"domain":"dummy","descriptors":[{"entries":[{"key":"perday"}]}]}`
	for name, from := range map[string]caller{
		"curl with its default type": {host: "localhost:8080", headers: []string{"Content-Type", "application/x-www-form-urlencoded", "User-Agent", "curl/8.5.0", "Accept", "*/*"}},
		"a program without a type":   {host: "127.0.0.1:8080"},
		"a program in Python":        {host: "127.0.0.1:8080", headers: []string{"Accept-Encoding", "gzip, deflate", "User-Agent", "python-requests/2.32"}},
		"a program with a charset":   {host: "[::1]:8080", headers: []string{"Content-Type", "application/json; charset=utf-8"}},
		"a container":                {host: "ratelimit:8080", remote: "172.18.0.5:1", headers: []string{"Content-Type", jsonType}},
		"a pod":                      {host: "envoy-ratelimit.envoy-gateway-system.svc.cluster.local:8080", remote: "10.1.2.3:1", headers: []string{"Content-Type", jsonType}},
		"curl of all addresses":      {host: "0:8080", headers: []string{"Content-Type", jsonType}},
		"a listed name":              {host: "limits.example:8080", headers: []string{"Content-Type", jsonType}},
		"no host":                    {headers: []string{"Content-Type", jsonType}},
	} {
		g := newGuarded()
		if status, text := from.ask(g.pages.HTTP(http.NotFoundHandler()), "POST", "/json", body); status != 200 || g.calls != 1 || len(g.refused) != 0 {
			t.Errorf("%s: %d %s, %d calls, refused %q", name, status, text, g.calls, g.refused)
		}
	}
	g := newGuarded()
	g.pages.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	if status, _ := (caller{host: "127.0.0.1", remote: "203.0.113.7:1", headers: []string{"Content-Type", jsonType}}).ask(g.pages.HTTP(http.NotFoundHandler()), "POST", "/json", body); status != 200 {
		t.Errorf("a trusted peer: %d", status)
	}
	probe := caller{host: "balancer.example", remote: "203.0.113.7:1", headers: []string{"Accept-Language", "en", "Sec-Fetch-Site", "cross-site"}}
	if status, text := probe.ask(g.pages.HTTP(http.NotFoundHandler()), "GET", "/healthcheck", ""); status != 200 || text != "OK" {
		t.Errorf("/healthcheck: %d %s", status, text)
	}
}

// Web pages read neither limits nor statistics by a name of their own, and programs do.
func TestWebPagesReadNothing(t *testing.T) {
	for name, c := range map[string]struct {
		from    caller
		status  int
		scraped int // at the address of Prometheus
	}{
		"curl":                         {caller{host: "0:6070"}, 200, 200},
		"a browser of an operator":     {caller{host: "127.0.0.1:6070", headers: []string{"Accept-Language", "en", "Sec-Fetch-Site", "none"}}, 200, 200},
		"a listed name":                {caller{host: "debug.example", headers: []string{"Accept-Language", "en"}}, 200, 200},
		"a pod":                        {caller{host: "10.1.2.3:6070", remote: "10.1.2.4:1"}, 200, 200},
		"Prometheus by a name":         {caller{host: "host.corp.example:9090", headers: []string{"User-Agent", "Prometheus/3.0", "Accept-Encoding", "gzip"}}, 421, 200},
		"a rebound name":               {caller{host: "evil.example:6070", headers: []string{"Accept-Language", "en"}}, 421, 421},
		"a rebound name, by a script":  {caller{host: "evil.example:6070", headers: []string{"Accept-Language", "*", "X-Prometheus-Scrape-Timeout-Seconds", "10"}}, 421, 421},
		"a rebound name, headless":     {caller{host: "evil.example:6070", headers: []string{"Accept-Encoding", "gzip, deflate"}}, 421, 421},
		"a page of another site":       {caller{host: "127.0.0.1:6070", headers: []string{"Sec-Fetch-Site", "cross-site"}}, 403, 403},
		"a script of another origin":   {caller{host: "127.0.0.1:6070", headers: []string{"Origin", "http://127.0.0.1:3000"}}, 403, 403},
		"a name that begins as an own": {caller{host: "127.0.0.1.evil.example", headers: []string{"Accept-Language", "en"}}, 421, 421},
		"a name of the calls' address": {caller{host: "limits.example", headers: []string{"Accept-Language", "en"}}, 421, 421},
	} {
		g := newGuarded()
		debug := g.pages.Debug(http.NotFoundHandler())
		for _, path := range []string{"/", "/rlconfig", "/stats"} {
			status, text := c.from.ask(debug, "GET", path, "")
			if status != c.status || status != 200 && strings.Contains(text, "name: 1") {
				t.Errorf("%s: %s: %d %q; want %d", name, path, status, text, c.status)
			}
		}
		page := g.pages.Operators.Scraped(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
		if status, _ := c.from.ask(page, "GET", "/metrics", ""); status != c.scraped {
			t.Errorf("%s: the page for Prometheus: %d; want %d", name, status, c.scraped)
		}
	}
}
