package service

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/rules"
)

const (
	tokenSecret = "a secret of the tests with 32 bytes or more"
	tokenKeys   = `{"keys":[{"kty":"oct","k":"YSBzZWNyZXQgb2YgdGhlIHRlc3RzIHdpdGggMzIgYnl0ZXMgb3IgbW9yZQ"}]}`
	tokenID     = "3f0b8c1d-of-the-token"
	tokenRules  = `[tokens]
main : keys.json; issuer=id; audience=api; algorithms=HS256; from=bearer, query t, cookie session, header X-Token
[params]
uid  : jwt main sub
plan : jwt main plan else "free"
[forward]
X-User-Id : uid
[rules]
rule : [direct] [jwt.main=invalid,expired] [] [result=2; return=1]
rule : [count] [uid=+; plan=free] [time=60; count=1] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Http_status":401}
`
)

// collector receives spans, and keeps what it received.
type collector struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.text.ReadFrom(r.Body) // the test finds what is missing
}

// TestTokensLeaveNoTrace holds that nothing that a service writes or answers has a token of a
// request or a part of it, while what the rules see of it is in the decision log.
func TestTokensLeaveNoTrace(t *testing.T) {
	dir, spans := t.TempDir(), new(collector)
	for name, text := range map[string]string{"rules.conf": tokenRules, "keys.json": tokenKeys} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(spans)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL) // the library reads the process's own
	decisions, log := filepath.Join(dir, "decisions.jsonl"), new(logText)
	s, err := Open(t.Context(), Options{
		Config: load(t, map[string]any{
			"rules": []string{filepath.Join(dir, "rules.conf")}, "log_level": "debug", "log_refusals": true,
			"decision_log": decisions, "decision_log_params": []string{"uid", "plan"},
		}),
		Log: log, Environ: []string{"GOGC=100", "OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, s)
	sent := tokensOf(t)
	var answers bytes.Buffer
	connection := dialGRPC(t, s)
	for _, token := range sent {
		answers.WriteString(callsWith(t, connection, token))
		for _, r := range requestsWith(t, token) {
			w := httptest.NewRecorder()
			s.web.Handler.ServeHTTP(w, r)
			if err := w.Result().Write(&answers); err != nil {
				t.Fatal(err)
			}
		}
	}
	answers.WriteString(pagesOf(t, s, sent))
	connection.Close()
	stop()
	s.Close()
	written, err := os.ReadFile(decisions)
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{"log": log.String(), "decision log": string(written), "spans": spans.text.String(), "answers and pages": answers.String()}
	for name, want := range map[string]string{
		"log": `msg="a request was refused"`, "spans": "decide", "answers and pages": "its signature is wrong",
		"decision log": `"uid":"ann","plan@constant":"free"`,
	} {
		if !strings.Contains(outputs[name], want) {
			t.Errorf("the test sees no %s: it lacks %q", name, want)
		}
	}
	for _, outcome := range []string{"valid", "invalid", "expired"} {
		if want := `"jwt.main":"` + outcome + `"`; !strings.Contains(outputs["decision log"], want) {
			t.Errorf("the decision log lacks %s", want)
		}
	}
	for name, text := range outputs {
		for _, token := range sent {
			for _, part := range append(strings.Split(token, "."), token, tokenID) {
				if at := strings.Index(text, part); at >= 0 {
					t.Errorf("the %s has %q of a token: %s", name, part, text[max(0, at-200):at])
				}
			}
		}
	}
}

// tokensOf returns a valid token, an expired one, a forged one, and one that is none.
func tokensOf(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, ends := range []time.Duration{time.Hour, -time.Hour} {
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
			"iss": "id", "aud": "api", "exp": time.Now().Add(ends).Unix(), "sub": "ann", "jti": tokenID,
		}).SignedString([]byte(tokenSecret))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	return append(list, list[0][:len(list[0])-9]+"-forged-A", "not-a-token-but-a-secret.x-part-of-it.y-part-of-it")
}

// callsWith returns the answers of the doors on gRPC to calls with a token at each place of
// ext_authz's, and to descriptors and metadata that a gateway has filled with it.
func callsWith(t *testing.T, connection *grpc.ClientConn, token string) string {
	t.Helper()
	var all strings.Builder
	add := func(answer proto.Message, err error) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := prototext.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, c := range []struct{ path, header, value string }{
		{"/", "authorization", "Bearer " + token},
		{"/", "authorization", "Bearer " + token + ",Bearer x"},
		{"/", "cookie", "session=" + token},
		{"/?t=" + token, "x-other", "x"},
		{"/", "x-token", token},
		{"/a%zz?t=" + token, "x-token", token},
	} {
		add(authv3.NewAuthorizationClient(connection).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "198.51.100.7"}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "GET", Path: c.path, Host: "a.example", Headers: map[string]string{c.header: c.value, "x-request-id": "r-1"},
			}},
		}}))
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	add(rlsv3.NewRateLimitServiceClient(connection).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{
		Domain: "lab", Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "credential", Value: token}}}},
	}))
	return all.String()
}

// requestsWith returns checks at each HTTP door with a token at each place, malformed ones, and calls
// of Koala's API.
func requestsWith(t *testing.T, token string) []*http.Request {
	t.Helper()
	var list []*http.Request
	for _, c := range []struct{ uri, header, value string }{
		{"/", "Authorization", "Bearer " + token},
		{"/", "Authorization", "Bearer " + token + ", Basic x"},
		{"/", "Cookie", "session=" + token},
		{"/?t=" + token, "X-Other", "x"},
		{"/", "X-Token", token},
		{"/a%zz?t=" + token, "X-Token", token},
		{"//../%00", "Authorization", "Bearer " + token},
	} {
		for _, door := range []string{"auth-request", "accel", "forward-auth", "ext-authz"} {
			r := httptest.NewRequest(http.MethodGet, "/v1/"+door, nil)
			r.RemoteAddr = "127.0.0.1:1"
			if door == "ext-authz" {
				r.RequestURI += c.uri
			}
			for name, value := range map[string]string{
				"X-Original-Method": "GET", "X-Original-Uri": c.uri, "X-Real-Ip": "198.51.100.7",
				"X-Forwarded-Method": "GET", "X-Forwarded-Uri": c.uri, "X-Forwarded-For": "198.51.100.7", "X-Request-Id": "r-1",
			} {
				r.Header.Set(name, value)
			}
			r.Header.Set(c.header, c.value)
			list = append(list, r)
		}
		r := httptest.NewRequest(http.MethodGet, "/rule/take?uid=bob&t="+token, nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set(c.header, c.value)
		list = append(list, r)
	}
	return list
}

// pagesOf returns what the admin address answers after the requests, and to questions about them.
func pagesOf(t *testing.T, s *Service, sent []string) string {
	t.Helper()
	var all strings.Builder
	ask := func(method, path string, body any) {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(method, path, bytes.NewReader(text))
		r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.adminPages().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		_, _ = io.Copy(&all, w.Body) // a builder never fails
	}
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/audit", "/api/v1/exceptions", "/api/v1/bans", "/api/v1/rules", "/api/v1/traffic", "/api/v1/top"} {
		ask(http.MethodGet, path, nil)
	}
	for _, token := range sent {
		for _, target := range []string{"/", "/?t=" + token} {
			question := map[string]any{"request": map[string]any{
				"door": "extauthz", "method": "GET", "target": target, "peer": "198.51.100.7", "headers": map[string][]string{"X-Token": {token}},
			}}
			ask(http.MethodPost, "/api/v1/why", question)
			ask(http.MethodPost, "/api/v1/explain", question)
		}
	}
	return all.String()
}

// TestPublishedRulesReachTheHostsOfTheSettingAlone holds that whoever publishes rules does not
// make an instance fetch keys from hosts that its setting rules_may_use lacks.
func TestPublishedRulesReachTheHostsOfTheSettingAlone(t *testing.T) {
	s, _ := open(t, map[string]any{"rules_may_use": []string{"id.example.com", "127.0.0.1:8443"}})
	for _, c := range []struct {
		from rules.KeysFrom
		keys string
		want string // of the error; "" for none
	}{
		{rules.FromFile, "keys.json", ""},
		{rules.FromAddress, "https://127.0.0.1:8443/keys", ""},
		{rules.FromIssuer, "https://127.0.0.1:8443/realm", ""},
		{rules.FromAddress, "https://127.0.0.1/keys", `the host "127.0.0.1" is not in rules_may_use`},
		{rules.FromAddress, "https://id.example.com:8443/keys", `the host "id.example.com:8443" is not in rules_may_use`},
		{rules.FromIssuer, "https://id.example.com.evil.example/", `the host "id.example.com.evil.example" is not in rules_may_use`},
		{rules.FromIssuer, "http://169.254.169.254/", `the host "169.254.169.254" is not in rules_may_use`},
	} {
		line := &rules.JWT{Name: "main", From: c.from, Keys: c.keys, Issuer: "id", Algorithms: []string{"HS256"}, Refresh: time.Hour}
		_, _, err := s.publishedToken(line, []byte(tokenKeys))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.keys, err, c.want)
		}
	}
}

// TestKeyMetricsFollowTheRules holds that the metrics of keys name the tokens of the rules in force
// and on trial, and no others.
func TestKeyMetricsFollowTheRules(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(issuer.Close)
	dir := t.TempDir()
	write := func(file, token, path string) string {
		t.Helper()
		file = filepath.Join(dir, file)
		text := "[tokens]\n" + token + " : " + issuer.URL + path + "; issuer=id; audience=api\n[params]\nuid : jwt " + token + " sub\n" + oneRule
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	s, _ := open(t, map[string]any{"rules": []string{write("rules.conf", "main", "/a")}, "trial": []string{write("trial.conf", "tried", "/b")}})
	run(t, s)
	check := func(want ...string) {
		t.Helper()
		var got []string
		for begin := time.Now(); !slices.Equal(got, want); time.Sleep(time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("metrics of %q; want %q", got, want)
			}
			got = nil
			for _, set := range s.keySets() {
				got = append(got, set.Token)
			}
		}
	}
	check("main", "tried")
	write("rules.conf", "corp", "/a")
	s.app.Reload()
	check("corp", "tried")
	write("rules.conf", "corp", "/c")
	s.app.Reload()
	check("tried", "corp") // by address
	s.trials.end(trial.Ended, "the test stopped it")
	check("corp")
}

// TestVerifiersAreSharedOverReloads holds that a reload that leaves a line of [tokens] alone
// forgets no verified token.
func TestVerifiersAreSharedOverReloads(t *testing.T) {
	ring := tokens.NewRing(tokens.Options{Remembered: 100})
	parse := func(text string) *rules.Set {
		t.Helper()
		set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{
			OpenKeys: func(string, string) ([]byte, error) { return []byte(tokenKeys), nil }, OpenToken: ring.Open,
		})
		if findings.HasErrors() {
			t.Fatal(findings)
		}
		return set
	}
	first, valid := parse(tokenRules), tokensOf(t)[0]
	if outcome, _ := first.Tokens[0].Verify(valid); outcome != rules.JWTValid || ring.Remembered() != 1 {
		t.Fatalf("%v, %d remembered; want a valid token, remembered", outcome, ring.Remembered())
	}
	again := parse(strings.Replace(tokenRules, "count=1]", "count=2]", 1))
	if outcome, _ := again.Tokens[0].Verify(valid); outcome != rules.JWTValid || ring.Remembered() != 1 {
		t.Errorf("%v, %d remembered; want one after a reload that changed a rule", outcome, ring.Remembered())
	}
	other := parse(strings.Replace(tokenRules, "audience=api", "audience=app", 1))
	if outcome, _ := other.Tokens[0].Verify(valid); outcome != rules.JWTInvalid {
		t.Errorf("%v; want a token for another audience to be invalid after a reload that changed the line", outcome)
	}
	runtime.KeepAlive(first)
}
