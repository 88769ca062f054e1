package gateways_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// oddRules admit each value once: an admission shows that a value shares no counter
// with another one, and a refusal that it has its own counter.
const oddRules = `
[params]
uid : header X-User-Id
[rules]
rule : [count] [user=+] [time=3600; count=1;] [result=2; return=201]
rule : [count] [uid=+]  [time=3600; count=1;] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// oddValues returns different values, some of which differ only at the end or in
// bytes that programs tend to drop.
func oddValues() map[string]string {
	long := strings.Repeat("x", 20_000)
	return map[string]string{
		"20 kB":                            long + "a",
		"20 kB, another end":               long + "b",
		"a NUL inside":                     "a\x00b",
		"a NUL and another byte":           "a\x00c",
		"invalid UTF-8":                    "\xff\xfe",
		"other invalid UTF-8":              "\xff\xfd",
		"the replacement of invalid UTF-8": "\uFFFD\uFFFD",
		"separators of identities":         "a|b,c;d=e",
		"a newline":                        "a\nb",
	}
}

// Every value, whatever its bytes, gets a decision and its own counter.
func TestOddValuesAreDecided(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", oddRules), "--redis", h.Redis().URL())
	t.Run("Koala's API", func(t *testing.T) { oddAtKoala(t, k) })
	t.Run("ext_authz", func(t *testing.T) { oddAtExtAuthz(t, k) })
	t.Run("rate limit service", func(t *testing.T) { oddAtRateLimit(t, k) })
	if !rig.Readyz(t, k).Ready {
		t.Error("the service is no longer ready")
	}
}

func oddAtKoala(t *testing.T, k *e2e.Koalagate) {
	base := "http://" + k.HTTP + "/rule/take"
	if r := rig.WantStatus(t, http.StatusOK, "GET", base); !strings.Contains(r.Body, `"Err_no":0`) {
		t.Errorf("without parameters: %s", r.Body)
	}
	for name, value := range oddValues() {
		for i, want := range []string{`"Err_no":0`, `"Err_no":10`} {
			r, err := postForm(base, url.Values{"user": {value}})
			if err != nil || !strings.Contains(r, want) {
				t.Errorf("%s, take %d: %.200q, %v; want %s", name, i+1, r, err, want)
			}
		}
	}
}

func postForm(target string, form url.Values) (string, error) {
	r, err := http.NewRequest("POST", target, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := rig.Client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// oddAtExtAuthz sends an empty check, and checks with values in the context
// extensions, because headers from Envoy contain neither NUL nor newline.
func oddAtExtAuthz(t *testing.T, k *e2e.Koalagate) {
	conn, err := grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := authv3.NewAuthorizationClient(conn)
	check := func(r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return c.Check(ctx, r)
	}
	empty, err := check(&authv3.CheckRequest{})
	if err != nil || empty.GetStatus() == nil || empty.GetHttpResponse() == nil {
		t.Errorf("an empty check: %v, %v; want a status and an answer", empty, err)
	}
	for name, value := range oddValues() {
		if strings.ToValidUTF8(value, "") != value {
			continue // gRPC does not send protobuf strings that are not UTF-8
		}
		for i, allowed := range []bool{true, false} {
			r, err := check(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				ContextExtensions: map[string]string{"user": "grpc " + value},
			}})
			if err != nil || (r.GetStatus().GetCode() == 0) != allowed {
				t.Errorf("%s, check %d: %v, %v; allowed should be %t", name, i+1, r, err, allowed)
			}
		}
	}
}

func oddAtRateLimit(t *testing.T, k *e2e.Koalagate) {
	c := rig.RateLimiter(t, k)
	for name, value := range oddValues() {
		if strings.ToValidUTF8(value, "") != value {
			continue
		}
		for i, want := range []string{"OK", "OVER_LIMIT"} {
			r, err := rig.ShouldRateLimit(c, rig.Descriptors("user=rls "+value))
			if err != nil || r.OverallCode.String() != want {
				t.Errorf("%s, call %d: %v, %v; want %s", name, i+1, r, err, want)
			}
		}
	}
	for name, value := range map[string]string{"no value": "user=", "no key": "=x"} {
		if r, err := rig.ShouldRateLimit(c, rig.Descriptors(value)); err != nil || r.OverallCode.String() != "OK" || len(r.Statuses) != 1 {
			t.Errorf("%s: %v, %v; want OK and one status", name, r, err)
		}
	}
}

// Through gateways, such values in a client's headers get a decision, never a 500.
func TestOddHeadersThroughGateways(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", oddRules))
	app := h.App()
	gateways := map[string]*e2e.Gateway{"envoy": h.Envoy(app, k), "nginx": h.Nginx(app, k)}
	for name, g := range gateways {
		for what, value := range map[string]string{"7 kB": strings.Repeat("x", 7000), "bytes above ASCII": "\xff\xfe", "separators": "a|b;c,d"} {
			value := "X-User-Id: " + name + value
			if r := rig.Send(t, "GET", g.URL+"/", value); r.Status != 200 {
				t.Errorf("%s, %s: %d, want 200", name, what, r.Status)
			}
			if r := rig.Send(t, "GET", g.URL+"/", value); r.Status != 429 {
				t.Errorf("%s, %s, again: %d, want 429", name, what, r.Status)
			}
		}
	}
}
