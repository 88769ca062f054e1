//go:build !race

package allocations

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// ownRules have a limit that is never reached, for four names, one that is reached
// after one call, and two whose takes have receipts. Calls that match no rule with a
// receipt must not pay for these.
const ownRules = `
rule : [count] [uid=+] [time=3600; count=1000000000] [result=2; return=1]
rule : [count] [org=+] [time=3600; count=1000000000] [result=2; return=2]
rule : [count] [app=+] [time=3600; count=1000000000] [result=2; return=3]
rule : [count] [key=+] [time=3600; count=1000000000] [result=2; return=4]
rule : [count] [few=+] [time=3600; count=1] [result=2; return=5]
rule : [count] [tokens=+] [time=3600; count=1000000000; settle=60] [result=2; return=6]
rule : [hold] [streams=+] [time=60; count=1000000] [result=2; return=7]
rule : [token] [quota=+] [time=1; count=1000000; burst=1000000; lease=20%] [result=2; return=8]
`

func parse(t *testing.T) *rules.Set {
	var names []string
	for _, c := range several {
		names = append(names, c.names...)
	}
	text := strings.Replace(traffic.Rules(names...), "[rules]\n", "[rules]"+ownRules, 1)
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

// decision is one call from a door's handler to the store and back.
type decision struct {
	name string
	// call returns a function that makes the call with these parameters, and reports
	// whether it was allowed.
	call func(t *testing.T, e *engine.Engine, names ...string) func() bool
	// settles is true if the door settles receipts itself, beside its calls.
	settles bool
}

var quiet = slog.New(slog.DiscardHandler)

// decisions contains a decision for every door.
var decisions = []decision{
	{"ratelimit", func(t *testing.T, e *engine.Engine, names ...string) func() bool {
		message := &rlsv3.RateLimitRequest{Domain: "shop"}
		for _, name := range names {
			message.Descriptors = append(message.Descriptors, &ratelimitv3.RateLimitDescriptor{
				Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: name, Value: "1000000001"}},
			})
		}
		// A reply starts with overall_code.
		return overGRPC(t, wiretest.Open(ratelimit.New(ratelimit.Options{Engine: e, Logger: quiet})), message, []byte{1 << 3, byte(rlsv3.RateLimitResponse_OK)})
	}, false},
	{"extauthz", func(t *testing.T, e *engine.Engine, names ...string) func() bool {
		about := map[string]string{}
		for _, name := range names {
			about[name] = "1000000001"
		}
		message := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "GET", Path: "/", Host: "shop.example", Scheme: "http",
				Headers: map[string]string{":authority": "shop.example", ":method": "GET", ":path": "/", "x-request-id": "1"},
			}},
			ContextExtensions: about,
		}}
		// A reply starts with its status, which omits the code OK.
		return overGRPC(t, wiretest.Open(extauthz.New(extauthz.Options{Engine: e, Presentation: presentation, Logger: quiet})), message, []byte{1<<3 | 2, 0})
	}, false},
	{"nginx", func(_ *testing.T, e *engine.Engine, names ...string) func() bool {
		door := nginx.New(nginx.Options{Engine: e, Presentation: presentation, Logger: quiet})
		return web(door, "/v1/auth-request?"+query(names), map[string]string{"X-Original-Method": "GET", "X-Original-URI": "/", "X-Real-IP": "198.51.100.7"})
	}, false},
	{"koala", func(_ *testing.T, e *engine.Engine, names ...string) func() bool {
		door := koala.New(koala.Options{Engine: e, Access: koala.Full, Hosts: []string{"example.com"}, Logger: quiet})
		return web(door, "/rule/browse?_writeThrough=yes&"+query(names), nil)
	}, false},
	{"middleware", func(_ *testing.T, e *engine.Engine, names ...string) func() bool {
		about := map[string]string{}
		for _, name := range names {
			about[name] = "1000000001"
		}
		wrap := middleware.New(middleware.Options{Engine: e, Presentation: presentation, Logger: quiet, Params: func(*http.Request) map[string]string { return about }})
		return web(wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "/", nil)
	}, true},
}

// overGRPC calls a door like gRPC does, with an encoded message. A reply that allows
// starts with the bytes in admitted.
func overGRPC(t *testing.T, front *wiretest.Front, message proto.Message, admitted []byte) func() bool {
	call := front.Caller(wiretest.Marshal(t, message))
	return func() bool {
		reply, err := call(context.Background())
		return checked(t, err) && bytes.HasPrefix(reply, admitted)
	}
}

var presentation = engine.Presentation{Quota: "both"}

func checked(t *testing.T, err error) bool {
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func query(names []string) string {
	values := url.Values{}
	for _, name := range names {
		values.Set(name, "1000000001")
	}
	return values.Encode()
}

// web calls a door over HTTP. Koala's API reports refusals in the body, and all others
// by the status.
func web(door http.Handler, target string, headers map[string]string) func() bool {
	request := httptest.NewRequest(http.MethodGet, target, nil)
	request.RemoteAddr = "127.0.0.1:1"
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	w := &sink{header: http.Header{}}
	return func() bool {
		clear(w.header)
		w.refused = false
		door.ServeHTTP(w, request)
		return !w.refused
	}
}

// sink is a ResponseWriter without allocations.
type sink struct {
	header  http.Header
	refused bool
}

// Header returns the header, which is cleared before each call.
func (s *sink) Header() http.Header { return s.header }

// Write detects a refusal by Koala's API.
func (s *sink) Write(b []byte) (int, error) {
	for i := 0; i+4 <= len(b); i++ {
		if string(b[i:i+4]) == "Deny" {
			s.refused = true
		}
	}
	return len(b), nil
}

// WriteHeader records a status other than 200.
func (s *sink) WriteHeader(status int) { s.refused = status != http.StatusOK }
