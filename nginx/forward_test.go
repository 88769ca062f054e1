package nginx_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/nginx"
)

// forwarding forwards a user and what else the gateway knows.
const forwarding = `
[params]
uid  : header X-Uid
plan : header X-Plan else cookie plan
[forward]
X-User-Id   : uid
X-User-Plan : plan
`

// removeHeader is the header that names those that Envoy removes.
const removeHeader = "X-Envoy-Auth-Headers-To-Remove"

// gatewayDoors are the doors with a check of the client's request GET /.
var gatewayDoors = []struct {
	name, target string
	headers      []string
}{
	{"auth-request", "/v1/auth-request", viaNginx("GET", "/x")},
	{"accel", "/v1/accel", viaNginx("GET", "/x")},
	{"forward-auth", "/v1/forward-auth", viaCaddy("GET", "/x")},
	{"ext-authz", "/v1/ext-authz/x", []string{"X-Forwarded-For", "198.51.100.7"}},
}

// Each allowed check has the forwarded headers: with an empty value for gateways that drop
// the client's header then, and named in another header for Envoy. That depends neither on
// the mode nor on the store.
func TestForward(t *testing.T) {
	long := strings.Repeat("u", 1025)
	for name, c := range map[string]struct {
		sent      []string
		uid, plan string
	}{
		"a user and a plan":      {[]string{"X-Uid", "ann", "X-Plan", "gold"}, "ann", "gold"},
		"nothing":                {nil, "", ""},
		"only claims":            {[]string{"X-User-Id", "mallory", "X_User_Id", "mallory", "X-User-Plan", "gold"}, "", ""},
		"blanks around a value":  {[]string{"X-Uid", " ann\t"}, "ann", ""},
		"a later source":         {[]string{"Cookie", "plan=silver"}, "", "silver"},
		"a long value":           {[]string{"X-Uid", long, "X-Plan", "gold"}, "", "gold"},
		"the longest value":      {[]string{"X-Uid", long[1:], "X-Plan", "gold"}, long[1:], "gold"},
		"values that do not fit": {[]string{"X-Uid", long[:1000], "X-Plan", long[:1000]}, long[:1000], ""},
		"bytes above ASCII":      {[]string{"X-Uid", "\xff\xe4"}, "\xff\xe4", ""},
		"several values":         {[]string{"X-Uid", "ann", "X-Uid", "bob"}, "ann,bob", ""},
	} {
		for _, mode := range []engine.Mode{engine.ModeEnforce, engine.ModeObserve, engine.ModeOff} {
			modes := new(engine.Modes)
			o := options(t)
			o.Engine = engine.New(parse(t, forwarding+ruleFile[strings.Index(ruleFile, "[routes]"):]), wiring.CountIn(inMemory(t)), engine.WithModes(modes))
			s := serve(t, nginx.New(o))
			for _, d := range gatewayDoors {
				modes.Set(map[string]engine.Mode{d.name: mode})
				res := check(t, s, "GET", d.target, slices.Concat(d.headers, c.sent)...)
				if res.StatusCode != http.StatusOK {
					t.Fatalf("%s at %s: %s; want 200", name, d.name, text(t, res))
				}
				checkForwarded(t, name+" at "+d.name, res, d.name == "ext-authz", map[string]string{"X-User-Id": c.uid, "X-User-Plan": c.plan})
			}
		}
	}
}

// A client that may choose forwarded values displaces neither the receipt nor the decision.
func TestForwardedValuesDisplaceNothing(t *testing.T) {
	o := options(t)
	o.Engine = engine.New(parse(t, forwarding+`[rules]
rule : [count] [uid=+] [time=3600; count=1000000; settle=60] [result=2; return=1; mark=watched]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`), wiring.CountIn(inMemory(t)))
	s := serve(t, nginx.New(o))
	for n := 600; n <= 1024; n += 3 {
		value := strings.Repeat("u", n)
		for _, d := range gatewayDoors {
			res := check(t, s, "GET", d.target, slices.Concat(d.headers, []string{"X-Uid", value, "X-Plan", value})...)
			for _, header := range []string{engine.HeaderReceipt, engine.HeaderDecision} {
				if res.Header.Get(header) == "" {
					t.Fatalf("%s, two values of %d bytes: no %s", d.name, n, header)
				}
			}
		}
	}
}

// checkForwarded checks the forwarded headers of an answer.
func checkForwarded(t *testing.T, name string, res *http.Response, isEnvoy bool, want map[string]string) {
	t.Helper()
	removed := strings.Split(res.Header.Get(removeHeader), ",")
	for header, value := range want {
		got := res.Header[header]
		switch {
		case !isEnvoy || value != "":
			if !slices.Equal(got, []string{value}) {
				t.Errorf("%s: %s is %q; want %q", name, header, got, value)
			}
		case got != nil || !slices.Contains(removed, header):
			t.Errorf("%s: %s is %q, and %q are removed; want it removed", name, header, got, removed)
		}
		if value != "" && slices.Contains(removed, header) {
			t.Errorf("%s: %s is removed", name, header)
		}
	}
	if !isEnvoy && res.Header.Get(removeHeader) != "" {
		t.Errorf("%s: the answer has %s", name, removeHeader)
	}
}

// A malformed request that a door lets through in mode observe still has its user.
func TestForwardOfMalformedRequests(t *testing.T) {
	o := options(t)
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{"auth-request": engine.ModeObserve})
	o.Engine = engine.New(parse(t, forwarding+ruleFile[strings.Index(ruleFile, "[routes]"):]), wiring.CountIn(inMemory(t)), engine.WithModes(modes))
	s := serve(t, nginx.New(o))
	for _, headers := range [][]string{viaNginx("GET", "/%zz"), append(viaNginx("GET", "/"), "X-Forwarded-Host", "a..b")} {
		res := check(t, s, "GET", "/v1/auth-request", append(headers, "X-Uid", "ann")...)
		checkForwarded(t, "malformed", res, false, map[string]string{"X-User-Id": "ann", "X-User-Plan": ""})
	}
}

// Refusals and failures tell nobody who asks.
func TestForwardOnlyWithPermission(t *testing.T) {
	text := forwarding + ruleFile[strings.Index(ruleFile, "[routes]"):]
	o := options(t)
	o.Engine = engine.New(parse(t, text), wiring.CountIn(inMemory(t)))
	refusing := serve(t, nginx.New(o))
	o.Engine = engine.New(parse(t, text), wiring.CountIn(storetest.Failing{Err: http.ErrServerClosed}))
	failing := serve(t, nginx.New(o))
	for _, d := range gatewayDoors {
		target, headers := strings.Replace(d.target, "/x", "/black", 1), append(slices.Clone(d.headers), "X-Uid", "ann")
		for i := range headers {
			headers[i] = strings.Replace(headers[i], "/x", "/black", 1)
		}
		for name, res := range map[string]*http.Response{
			"refused": check(t, refusing, "GET", target, headers...),
			"failed":  check(t, failing, "GET", strings.Replace(target, "/black", "/comments", 1), replaced(headers, "/black", "/comments")...),
		} {
			if res.StatusCode < 400 || res.Header["X-User-Id"] != nil {
				t.Errorf("%s at %s: %d with X-User-Id %q; want a refusal without it", name, d.name, res.StatusCode, res.Header["X-User-Id"])
			}
		}
	}
}

func replaced(list []string, from, to string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = strings.Replace(list[i], from, to, 1)
	}
	return list
}

// 32 headers with the longest names fit into an answer with its permission, and the log says
// once what did not fit.
func TestForwardWithoutRoom(t *testing.T) {
	var forward strings.Builder
	forward.WriteString("[params]\nuid : header X-Uid\n[forward]\n")
	for i := range 32 {
		forward.WriteString("X-" + strings.Repeat(string(rune('A'+i%26)), 29+i/26) + " : uid\n")
	}
	var log bytes.Buffer
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Engine = engine.New(parse(t, forward.String()+ruleFile[strings.Index(ruleFile, "[routes]"):]), wiring.CountIn(inMemory(t)))
	s := serve(t, nginx.New(o))
	for _, d := range gatewayDoors {
		res := check(t, s, "GET", d.target, append(slices.Clone(d.headers), "X-Uid", strings.Repeat("u", 100))...)
		size, full, empty := 0, 0, 0
		for name, values := range res.Header {
			size += len(name) + len(values[0]) + len(": \r\n")
			if len(name) > 30 && values[0] != "" {
				full++
			} else if len(name) > 30 {
				empty++
			}
		}
		if res.StatusCode != http.StatusOK || size > 2000 || full < 4 || d.name != "ext-authz" && full+empty != 32 {
			t.Errorf("%s: %d, %d bytes of headers, %d with a value and %d without; want 32, and below 2 kB", d.name, res.StatusCode, size, full, empty)
		}
		if d.name == "accel" && res.Header.Get("X-Accel-Redirect") == "" {
			t.Error("accel: the answer gives no permission")
		}
	}
	if n := strings.Count(log.String(), "has no room"); n != 1 || strings.Contains(log.String(), "uuu") {
		t.Errorf("the log has %d lines, or a value:\n%s", n, &log)
	}
}
