package nginx_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ruleFile has a rule for every kind of answer. `act`, from the URL of the check or from
// the path, selects it.
const ruleFile = `
[params]
uid  : header X-User-Id else client-ip
act  : gateway
size : header X-Size
[routes]
* /comments : act=comment
* /black    : act=black
* /captcha  : act=captcha
* /teapot   : act=teapot
* /fine     : act=fine
* /down     : act=down
* /long     : act=long
* /crlf     : act=crlf
* /roomy    : act=roomy
* /members  : act=members
[rules]
rule : [direct] [act=black] [time=1; count=0;] [result=2; return=100]
rule : [direct] [act=captcha] [time=1; count=0;] [result=3; return=101]
rule : [direct] [act=teapot] [time=1; count=0;] [result=4; return=102]
rule : [direct] [act=fine] [time=1; count=0;] [result=5; return=103]
rule : [direct] [act=down] [time=1; count=0;] [result=6; return=104]
rule : [direct] [act=long] [time=1; count=0;] [result=7; return=105]
rule : [direct] [act=crlf] [time=1; count=0;] [result=8; return=106]
rule : [direct] [act=members] [] [result=9; return=107]
rule : [count] [act=comment; uid=+] [time=90; count=2; cost=size] [result=2; return=201]
rule : [count] [act=roomy; uid=+] [time=90; count=1000000000;] [result=2; return=203]
rule : [count] [act=once; uid=+] [time=90; count=1;] [result=2; return=202]
rule : [count] [act=soft; uid=+] [time=90; count=1;] [result=2; return=204; mark=slow; quiet=1]
rule : [count] [act=soft; uid=+] [time=90; count=1;] [result=2; return=205; mark=cheap; quiet=1]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
3 : {"Err_no":20, "Need_vcode":1, "Vcode_len":4}
4 : {"Err_no":10, "Http_status":418, "Headers":{"Location":"/tea", "X-Pot":"short", "X-Accel-Redirect":"@app"}, "Body":"{\n  \"stout\": true\n}"}
5 : {"Err_no":10, "Http_status":200, "Body":"sorry"}
6 : {"Err_no":10, "Http_status":502}
7 : {"Err_no":10, "Err_msg":"LONG", "Headers":{"X-Long":"LONG", "X-Short":"kept"}, "Body":"LONG"}
8 : {"Err_no":10, "Headers":{"X-Two":"a b"}, "Body":"a\r\nSet-Cookie: forged=1\r\n\r\nb\u0000c\u007fd"}
9 : {"Err_no":10, "Http_status":401}
`

// noon is 2026-06-01 12:00:00 in Shanghai, in ms since the epoch.
const noon = 1780286400000

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	text = strings.ReplaceAll(text, "LONG", strings.Repeat("0123456789", 200))
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatalf("the rules have errors: %v", findings)
	}
	return set
}

// options returns the options of a door with a new store whose clock stays at noon.
func options(t testing.TB) nginx.Options {
	t.Helper()
	m := memory.New(memory.Options{Clock: func() int64 { return noon }})
	t.Cleanup(func() { m.Close() })
	return nginx.Options{Engine: engine.New(parse(t, ruleFile), wiring.CountIn(m)), Logger: slog.New(slog.DiscardHandler)}
}

// serve starts a real server on loopback.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// check sends a check with a target and a list of header names and values. The body of
// the answer has been read.
func check(t testing.TB, s *httptest.Server, method, target string, headers ...string) *http.Response {
	t.Helper()
	res, err := tryCheck(s, method, target, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func tryCheck(s *httptest.Server, method, target string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequest(method, s.URL+target, http.NoBody)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := s.Client().Transport.RoundTrip(r) // a gateway follows no redirect
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, err
}

// text returns an answer as text, with its headers sorted by name.
func text(t testing.TB, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for name, values := range res.Header {
		for _, v := range values {
			if name != "Date" {
				lines = append(lines, name+": "+v)
			}
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d\n%s\n\n%s", res.StatusCode, strings.Join(lines, "\n"), body)
}

// The headers that the gateways of each family send for one request.
func viaNginx(method, uri string) []string {
	return []string{
		"X-Original-Method", method, "X-Original-URI", uri, "X-Real-IP", "198.51.100.7",
		"X-Forwarded-Host", "shop.example", "X-Forwarded-Proto", "https",
	}
}

func viaCaddy(method, uri string) []string {
	return []string{
		"X-Forwarded-Method", method, "X-Forwarded-Uri", uri, "X-Forwarded-For", "9.9.9.9, 198.51.100.7",
		"X-Forwarded-Host", "shop.example", "X-Forwarded-Proto", "https",
	}
}

func TestChecksMayUseAnyMethod(t *testing.T) {
	s := serve(t, nginx.New(options(t)))
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"} {
		if res := check(t, s, method, "/v1/auth-request", viaNginx("GET", "/black")...); res.StatusCode != 403 || res.Header.Get("X-Koala-Rule") != "100" {
			t.Errorf("%s: %s", method, text(t, res))
		}
		if res := check(t, s, method, "/v1/forward-auth", viaCaddy("GET", "/")...); res.StatusCode != 200 {
			t.Errorf("%s: %s", method, text(t, res))
		}
	}
}

func TestParallelChecksAreCountedExactly(t *testing.T) {
	s := serve(t, nginx.New(options(t)))
	var passed [4]atomic.Int32 // of each of four users
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			user := i % len(passed)
			headers := append(viaNginx("POST", "/comments"), "X-User-Id", fmt.Sprint("user", user))
			res, err := tryCheck(s, "POST", "/v1/auth-request", headers...)
			switch {
			case err != nil:
				t.Error(err)
			case res.StatusCode == 200:
				passed[user].Add(1)
			}
		})
	}
	group.Wait()
	for user := range passed {
		if n := passed[user].Load(); n != 2 {
			t.Errorf("user %d: %d checks passed; want 2", user, n)
		}
	}
}

// A client can send the headers of a family that its gateway does not know and so does
// not overwrite.
func TestForgedHeaderFamiliesAreIgnored(t *testing.T) {
	s := serve(t, nginx.New(options(t)))
	forgedForNginx := viaCaddy("GET", "/")
	forgedForCaddy := append(viaNginx("GET", "/"), "X-Koala-Param-Act", "")
	for _, c := range []struct {
		name, target string
		headers      []string
	}{
		{"auth-request", "/v1/auth-request", append(forgedForNginx, viaNginx("GET", "/black")[:6]...)},
		{"accel", "/v1/accel", append(forgedForNginx, viaNginx("GET", "/black")[:6]...)},
		{"forward-auth", "/v1/forward-auth", append(forgedForCaddy, viaCaddy("GET", "/black")[:6]...)},
		{"ext-authz", "/v1/ext-authz/black", append(forgedForCaddy, "X-Forwarded-For", "198.51.100.7", "X-Forwarded-Uri", "/")},
		{"auth-request with the other family alone", "/v1/auth-request", viaCaddy("GET", "/")},
		{"accel with the other family alone", "/v1/accel", viaCaddy("GET", "/")},
		{"forward-auth with the other family alone", "/v1/forward-auth", viaNginx("GET", "/")},
		{"ext-authz with the other family alone", "/v1/ext-authz/", viaNginx("GET", "/")},
	} {
		if res := check(t, s, "GET", c.target, c.headers...); res.StatusCode != 403 {
			t.Errorf("%s: a forged request passed: %s", c.name, text(t, res))
		}
	}
}

func TestOnlyTrustedPeersMaySendChecks(t *testing.T) {
	for _, c := range []struct {
		peer    string
		trusted []netip.Prefix
		status  int
	}{
		{"127.0.0.1:1", nil, 200},
		{"127.9.9.9:1", nil, 200},
		{"[::1]:1", nil, 200},
		{"[::ffff:10.1.2.3]:1", nil, 200},
		{"172.31.0.1:1", nil, 200},
		{"192.168.7.7:1", nil, 200},
		{"[fd00::7%eth0]:1", nil, 200},
		{"172.32.0.1:1", nil, 403},
		{"203.0.113.9:1", nil, 403},
		{"[2001:db8::1]:1", nil, 403},
		{"", nil, 403},
		{"@", nil, 403},
		{"203.0.113.9:1", []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, 200},
		{"127.0.0.1:1", []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, 403},
		{"127.0.0.1:1", []netip.Prefix{}, 403},
	} {
		o := options(t)
		o.TrustedProxies = c.trusted
		r := httptest.NewRequest("GET", "/v1/auth-request", nil)
		r.RemoteAddr = c.peer
		for h := viaNginx("GET", "/"); len(h) > 0; h = h[2:] {
			r.Header.Set(h[0], h[1])
		}
		w := httptest.NewRecorder()
		nginx.New(o).ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("peer %q, trusted %v: %d; want %d", c.peer, c.trusted, w.Code, c.status)
		}
	}
}

func TestUnixSocketPeersAreTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "koala.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.TrustedProxies = []netip.Prefix{}
	s := httptest.NewUnstartedServer(nginx.New(o))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, head("GET", "/v1/auth-request", viaNginx("GET", "/comments")...)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("%d; want 200", res.StatusCode)
	}
}

// Every failure is a 503, which gateways can distinguish from a decision.
func TestFailures(t *testing.T) {
	for name, broken := range map[string]storetest.Failing{
		"no store answers": {Err: errors.New("connection refused")},
		"a panic":          {},
	} {
		for target, want := range map[string]string{
			"/v1/auth-request?act=once": "",
			"/v1/accel?act=once":        `{"type":"about:blank","title":"Service Unavailable","status":503}`,
		} {
			o := options(t)
			o.Engine = engine.New(parse(t, ruleFile), wiring.CountIn(broken))
			s := serve(t, nginx.New(o))
			for range 2 {
				res := check(t, s, "GET", target, viaNginx("GET", "/")...)
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != 503 || string(body) != want {
					t.Errorf("%s, %s: %d %q; want 503 %q", name, target, res.StatusCode, body, want)
				}
			}
		}
	}
}

func TestHiddenDecisionsAreSentToGatewaysOnly(t *testing.T) {
	o := options(t)
	o.Presentation = engine.Presentation{HideDecision: true, Quota: engine.QuotaNone}
	s := serve(t, nginx.New(o))
	if got := text(t, check(t, s, "GET", "/v1/forward-auth", viaCaddy("GET", "/black")...)); strings.Contains(got, "X-Koala") {
		t.Errorf("a client receives the decision: %s", got)
	}
	if res := check(t, s, "GET", "/v1/forward-auth", viaCaddy("GET", "/comments")...); res.Header.Get("X-Koala-Decision") != "allow" {
		t.Errorf("the application does not receive the decision: %s", text(t, res))
	}
}

func TestMissingHeadersAreLogged(t *testing.T) {
	var log bytes.Buffer
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := serve(t, nginx.New(o))
	for range 5 {
		check(t, s, "GET", "/v1/auth-request", "X-Original-Method", "GET", "X-Real-IP", "198.51.100.7")
		check(t, s, "GET", "/v1/auth-request", viaNginx("GET", "/%")...)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "X-Original-URI") {
		t.Errorf("the log has %d lines; want one that names X-Original-URI:\n%s", lines, log.String())
	}
}

func TestUnknownPathsAreLogged(t *testing.T) {
	var log bytes.Buffer
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := serve(t, nginx.New(o))
	for range 5 {
		check(t, s, "GET", "/v1/authrequest", viaNginx("GET", "/")...)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "path=/v1/authrequest") || !strings.Contains(log.String(), "/v1/auth-request,") {
		t.Errorf("the log has %d lines; want one that names the path and the doors:\n%s", lines, log.String())
	}
}

func TestGatewayThatAppendsTheClientsQueryIsLogged(t *testing.T) {
	var log bytes.Buffer
	logged := func() *httptest.Server {
		o := options(t)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		return serve(t, nginx.New(o))
	}
	s := logged()
	check(t, s, "GET", "/v1/forward-auth?act=once", viaCaddy("GET", "/?q=1")...)
	check(t, s, "GET", "/v1/auth-request?act=once", viaNginx("GET", "/?act=")...)
	check(t, s, "GET", "/v1/ext-authz/?a=1", append(viaCaddy("GET", "/?a=1"), viaNginx("GET", "/?a=1")...)...)
	if log.Len() != 0 {
		t.Errorf("it complains without a reason:\n%s", log.String())
	}
	byURL := []string{"X-Original-Method", "GET", "X-Original-URL", "http://shop.example/?a=1", "X-Real-IP", "198.51.100.7"}
	for path, headers := range map[string][]string{
		"/v1/forward-auth?a=1": viaCaddy("GET", "/?a=1"), "/v1/auth-request?a=1": viaNginx("GET", "/?a=1"), "/v1/accel?a=1": byURL,
	} {
		log.Reset()
		check(t, logged(), "GET", path, headers...)
		if !strings.Contains(log.String(), "clients choose parameters") {
			t.Errorf("%s: the log does not name it:\n%s", path, log.String())
		}
	}
}

func TestMappingOptionsApply(t *testing.T) {
	o := options(t)
	o.Mapping = mapping.Options{TrustedHops: 1, KeepMalformed: true}
	s := serve(t, nginx.New(o))
	for range 2 {
		check(t, s, "GET", "/v1/forward-auth?act=once", viaCaddy("GET", "/%zz")...)
	}
	h := viaCaddy("GET", "/%zz")
	h[5] = "9.9.9.9, 203.0.113.5"
	if res := check(t, s, "GET", "/v1/forward-auth?act=once", h...); res.StatusCode != 429 {
		t.Errorf("another gateway before the same client: %s", text(t, res))
	}
}
