package envoy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// serviceRules limits the requests of the tests below. All properties of a request
// are part of the identity of a purchase.
const serviceRules = `
[params]
uid    : header X-User-Id else cookie uid
act    : gateway
tenant : metadata facts tenant
who    : principal
[routes]
POST /buy    : act=buy
*    /users/ : act=user
*    /tenant : act=tenant
*    /who    : act=who
[rules]
rule : [count] [act=buy; method=+; path=+; host=+; scheme=+; ip=+; door=+] [time=3600; count=3] [result=2; return=201]
rule : [count] [act=user; uid=+]    [time=3600; count=1] [result=2; return=202]
rule : [count] [act=tenant; tenant=+] [time=3600; count=1] [result=2; return=203]
rule : [count] [act=who; who=+]     [time=3600; count=1] [result=2; return=204]
rule : [count] [act=extension; uid=+] [time=3600; count=1] [result=2; return=205]
rule : [count] [domain=facts; user=+] [time=3600; count=5] [result=2; return=301]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"Not so fast"}
`

// service is an Envoy with several filter configurations that call koalagate.
type service struct {
	app      *mirror
	envoy    *e2e.Gateway
	overHTTP *e2e.Gateway // with its sample
}

// byUser returns limits of the filter that count by X-User.
func byUser(more string) string {
	return rig.PerRoute(`{ actions: [ { request_headers: { header_name: x-user, descriptor_key: user } } ]` + rig.Optional("", more) + ` }`)
}

// How koalagate treats the calls of a real Envoy: docs/gateways/facts.md.
func TestEnvoyWithKoalagate(t *testing.T) {
	h := rig.NewFixture(t)
	socket := h.Dir + "/grpc.sock"
	k := h.Koalagate("--rules", h.File("rules.conf", serviceRules), "--grpc-addr", "unix:"+socket)
	s := &service{app: newMirror(t), overHTTP: h.EnvoyHTTP(h.App(), k)}
	quota := `enable_x_ratelimit_headers: DRAFT_VERSION_03, enable_retry_after_header: true, failure_mode_deny: true`
	s.envoy = rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(s.app.Address, rig.Cluster("koalagate", k.GRPC, rig.HTTP2),
		rig.Listener{Name: "map", Filters: []string{tenantMetadata, extAuthz(rig.Ample, `metadata_context_namespaces: [ facts ]`)}},
		rig.Listener{Name: "raw", Filters: []string{extAuthz(rig.Ample, `encode_raw_headers: true`)}},
		rig.Listener{
			Name: "body", Filters: []string{extAuthz(rig.Ample, `with_request_body: { max_request_bytes: 16, allow_partial_message: true }`)},
			Route: `typed_per_filter_config: { envoy.filters.http.ext_authz: { "@type": ` + rig.TypeURL + `filters.http.ext_authz.v3.ExtAuthzPerRoute, check_settings: { context_extensions: { act: extension } } } }`,
		},
		rig.Listener{Name: "tls", Filters: []string{extAuthz(rig.Ample, "")}, TLS: mutualTLS(h)},
		rig.Listener{Name: "take", Filters: []string{rig.RateLimit(rig.Ample, quota)}, Route: byUser(`hits_addend: { number: 3 }`)},
		rig.Listener{Name: "look", Filters: []string{rig.RateLimit(rig.Ample, quota)}, Route: byUser(`hits_addend: { number: 0 }`)},
		rig.Listener{Name: "refund", Filters: []string{rig.RateLimit(rig.Ample, quota)}, Route: byUser(`hits_addend: { number: 2, is_negative_hits: true }`)},
		rig.Listener{
			Name: "own", Filters: []string{rig.RateLimit(rig.Ample, quota)},
			RateLimit: `[ { actions: [ { request_headers: { header_name: x-user, descriptor_key: other } } ], limit: { rate_limit: { requests_per_unit: 2, unit: HOUR } } } ]`,
		},
	)))(t)

	t.Run("GW-61 hits, reads and refunds are counted", s.hits)
	t.Run("GW-62 a limit sent with a descriptor applies", s.override)
	t.Run("GW-63 no header leads to another counter", s.forged)
	t.Run("GW-64 no cookie hides behind another", s.cookies)
	t.Run("GW-65 context, metadata and principal are parameters", func(t *testing.T) { s.parameters(t, h) })
	t.Run("GW-66 bodies arrive complete", s.bodies)
	t.Run("GW-67 a refusal keeps the client's connection", s.keepsConnection)
	t.Run("GW-68 a gRPC client gets status 14 and a message", s.grpcClient)
	t.Run("GW-69 the upstream gets only koalagate's headers", s.upstream)
	t.Run("GW-75 a header with any bytes has its own counter", s.anyBytes)
	t.Run("GW-70 the decision is in the log", func(t *testing.T) { wantLogged(t, s.envoy, "ACCESS /buy", `"rule":201`) })
}

func (s *service) send(t *testing.T, want int, method, on, path string, headers ...string) rig.Reply {
	t.Helper()
	return rig.WantStatus(t, want, method, "http://"+s.envoy.Listeners[on]+path, headers...)
}

func (s *service) hits(t *testing.T) {
	for _, step := range []struct {
		on, remaining string
		want          int
	}{
		{"take", "2", 200},
		{"look", "2", 200},
		{"refund", "4", 200},
		{"take", "1", 200},
		{"take", "1", 429}, // it counts nothing
		{"look", "1", 200},
	} {
		r := s.send(t, step.want, "GET", step.on, "/", "X-User: ann")
		rig.WantHeader(t, r.Header, "X-Ratelimit-Remaining", step.remaining)
		rig.WantHeader(t, r.Header, "X-Ratelimit-Limit", `5, 5;w=3600;name="301"`)
		if step.want == 429 && (!strings.Contains(r.Body, "Not so fast") || len(r.Header.Values("Retry-After")) != 1) {
			t.Errorf("headers %v, body %s; want one Retry-After, and the entry's message", r.Header, r.Body)
		}
	}
	s.send(t, 200, "GET", "take", "/", "X-User: bob")
}

func (s *service) override(t *testing.T) {
	for i, want := range []int{200, 200, 429} {
		r := s.send(t, want, "GET", "own", "/", "X-User: ann")
		if want == 200 {
			rig.WantHeader(t, r.Header, "X-Ratelimit-Remaining", strconv.Itoa(1-i))
		}
		rig.WantHeader(t, r.Header, "X-Ratelimit-Limit", `2, 2;w=3600;name="limit"`)
	}
	s.send(t, 200, "GET", "own", "/", "X-User: bob")
}

// anyBytes checks headers with arbitrary bytes. With a failure mode that lets
// requests through, calls that koalagate cannot read would pass.
func (s *service) anyBytes(t *testing.T) {
	for _, value := range []string{"\xff", "\xfe", "?", "\uFFFD", "a\xc0\xafb", "\xc3\xa9"} {
		for i, want := range []int{200, 200, 429} {
			s.send(t, want, "GET", "own", "/", "X-User: "+value)
			if i > 0 {
				s.send(t, want, "GET", "map", "/tenant", "X-Tenant: "+value)
			}
		}
	}
}

// forgedHeaders could make a request pass for another one.
var forgedHeaders = []string{
	"X-Koala-Param-Act: user", "X-Koala-Param-Uid: eve", "X-Koala-Param-Ip: 198.51.100.1", "X-Koala-Param-Path: /other", "X-Koala-Act: user",
	"X-Koala-Decision: allow", "X-Koala-Rule: 1", "X-Koala-Status: 200", "X-Koala-Accel: @other",
	"X-Original-Method: GET", "X-Original-URI: /other", "X-Original-URL: /other", "X-Original-Path: /other", "X-Rewrite-URL: /other",
	"X-Forwarded-Method: GET", "X-Forwarded-Uri: /other", "X-Forwarded-Host: other.example", "X-Forwarded-Proto: gopher", "X-Forwarded-Port: 1",
	"X-Forwarded-For: 198.51.100.2", "X-Forwarded-For: 198.51.100.3, 127.0.0.1", "X-Forwarded-Client-Cert: By=x;URI=eve", "Forwarded: for=198.51.100.4;host=other.example",
	"X-Real-IP: 198.51.100.5", "X-Client-IP: 198.51.100.6", "True-Client-IP: 198.51.100.7", "CF-Connecting-IP: 198.51.100.8", "X-Envoy-External-Address: 198.51.100.9",
	"X-Envoy-Original-Path: /other", "X-Envoy-Internal: true", "X-HTTP-Method-Override: GET", "X-Envoy-Original-Dst-Host: 198.51.100.10:80",
	"X-Envoy-Decorator-Operation: other", "X-Envoy-Expected-Rq-Timeout-Ms: 1", "X-Request-Id: other", "Door: other", "Act: user", "Ip: 198.51.100.11",
	"Content-Type: application/x-www-form-urlencoded", "TE: trailers",
}

// forged repeats a request at its limit, each time with another forged header. If the
// header was trusted, the request would meet another counter and pass.
func (s *service) forged(t *testing.T) {
	for range 3 {
		s.send(t, 200, "POST", "map", "/buy")
	}
	wantNoLieBelieved(t, "http://"+s.envoy.Listeners["map"], "headers as a map")
	wantNoLieBelieved(t, "http://"+s.envoy.Listeners["raw"], "raw headers")
	for range 3 {
		rig.WantStatus(t, 200, "POST", s.overHTTP.URL+"/buy")
	}
	wantNoLieBelieved(t, s.overHTTP.URL, "over HTTP")
}

func wantNoLieBelieved(t *testing.T, url, how string) {
	t.Helper()
	for _, header := range forgedHeaders {
		if r := rig.Send(t, "POST", url+"/buy", header); r.Status != 429 || r.Header.Get("X-Koala-Rule") != "201" {
			t.Errorf("%s, %s: %d of rule %q; want 429 of rule 201", how, header, r.Status, r.Header.Get("X-Koala-Rule"))
		}
	}
	for _, path := range []string{"//buy", "/./buy", "/x/../buy", "/%62uy", "/buy?act=user&ip=198.51.100.1&uid=eve&path=/other", "/buy?"} {
		if r := rig.Send(t, "POST", url+path); r.Status != 429 {
			t.Errorf("%s, %s: %d; want 429", how, path, r.Status)
		}
	}
	rig.WantRefused(t, "POST", url+"/x/%2e%2e/buy")
}

func (s *service) cookies(t *testing.T) {
	for _, on := range []string{"map", "raw"} {
		user := "Cookie: uid=" + on
		s.send(t, 200, "GET", on, "/users/me", user)
		s.send(t, 429, "GET", on, "/users/me", "Cookie: theme=dark", user)
		s.send(t, 429, "GET", on, "/users/me", "Cookie: a=1, b=2", user, "Cookie: c=3")
	}
}

func (s *service) parameters(t *testing.T, h *rig.Fixture) {
	s.send(t, 200, "GET", "map", "/tenant", "X-Tenant: acme")
	s.send(t, 429, "GET", "map", "/tenant", "X-Tenant: acme")
	s.send(t, 200, "GET", "map", "/tenant", "X-Tenant: zebra")
	s.send(t, 200, "GET", "body", "/", "X-User-Id: ann") // act is set by context_extensions
	rig.WantHeader(t, s.send(t, 429, "GET", "body", "/", "X-User-Id: ann").Header, "X-Koala-Rule", "205")

	for _, name := range []string{"ann.example", "bob.example", "spiffe://mesh.example/ann", "spiffe://mesh.example/bob"} {
		config := rig.Trusting(t, h.Authorities["server"], rig.Must(h.Authorities["clients"].Sign(name))(t))
		config.ServerName = "gateway"
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		for i, want := range []int{200, 429} {
			resp, err := c.Get("https://" + s.envoy.Listeners["tls"] + "/who")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s, request %d: %d; want %d", name, i+1, resp.StatusCode, want)
			}
		}
	}
}

func (s *service) bodies(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	sum := sha256.Sum256(body)
	for _, on := range []string{"map", "body"} {
		resp, err := rig.Client.Post("http://"+s.envoy.Listeners[on]+"/upload-"+on, "application/octet-stream", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := s.app.reached("/upload-" + on)
		if len(got) != 1 || got[0].size != len(body) || got[0].digest != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the application got %d requests; want one, with all %d bytes unchanged", on, len(got), len(body))
		}
	}
}

// keepsConnection sends several requests with bodies, which are all refused.
func (s *service) keepsConnection(t *testing.T) {
	for _, r := range rig.OverOneConnection(t, s.envoy.Listeners["map"], "/buy", 10) {
		if r.Status != 429 || !strings.Contains(r.Body, "Not so fast") {
			t.Errorf("%d %s; want the complete 429", r.Status, r.Body)
		}
	}
}

func (s *service) grpcClient(t *testing.T) {
	r := s.send(t, 200, "POST", "map", "/buy", "Content-Type: application/grpc")
	rig.WantHeader(t, r.Header, "Grpc-Status", "14")
	if !strings.Contains(r.Header.Get("Grpc-Message"), "Not so fast") || r.Header.Get("Retry-After") == "" {
		t.Errorf("headers %v; want the entry's message and Retry-After", r.Header)
	}
}

func (s *service) upstream(t *testing.T) {
	s.send(t, 200, "GET", "map", "/heard", "X-Koala-Decision: forged", "X-Koala-Rule: 9", "X_Koala_Rule: 9", "X-Koala-Param-Act: user", "X-Koala-Other: 1", "X-Koala-Degraded: 1")
	got := s.app.reached("/heard")[0].Header
	rig.WantHeader(t, got, "X-Koala-Decision", "none")
	rig.WantHeader(t, got, "X-Koala-Result", "0")
	for name := range got {
		plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if strings.HasPrefix(plain, "x-koala-") && plain != "x-koala-decision" && plain != "x-koala-result" {
			t.Errorf("the application got %s: %q, forged by the client", name, got[name])
		}
	}
}
