package koalagate_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// incomplete are engines that cannot decide.
var incomplete = map[string]*engine.Engine{
	"no engine": nil, "a zero engine": new(engine.Engine), "no rules": engine.New(nil), "a zero rule set": engine.New(new(rules.Set)),
}

// A door on gRPC without an engine or rules answers UNAVAILABLE, so that the failure mode of
// Envoy's filter decides. Without rules extauthz sends a reply with that status.
func TestZeroDoorsOnGRPCAreUnavailable(t *testing.T) {
	descriptor := &extv3.RateLimitDescriptor{Entries: []*extv3.RateLimitDescriptor_Entry{{Key: "uid", Value: "ann"}}}
	check := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
		Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Host: "shop.example"},
	}}}
	for name, e := range incomplete {
		for door, c := range map[string]struct {
			door wiretest.Door
			call proto.Message
		}{
			"extauthz":  {extauthz.New(extauthz.Options{Engine: e}), check},
			"ratelimit": {ratelimit.New(ratelimit.Options{Engine: e}), &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*extv3.RateLimitDescriptor{descriptor}}},
		} {
			reply, err := wiretest.Open(c.door).Call(context.Background(), wiretest.Marshal(t, c.call))
			var answer authv3.CheckResponse
			if door == "extauthz" && (name == "no rules" || name == "a zero rule set") {
				if err := errors.Join(err, proto.Unmarshal(reply, &answer)); err != nil || codes.Code(answer.GetStatus().GetCode()) != codes.Unavailable {
					t.Errorf("%s, %s: %v, %v; want the status Unavailable", door, name, &answer, err)
				}
			} else if status.Code(err) != codes.Unavailable {
				t.Errorf("%s, %s: %x, %v; want the code Unavailable", door, name, reply, err)
			}
		}
	}
	if limits, err := ratelimit.NewLimits(imported.Options{}, nil); limits != nil || err == nil {
		t.Errorf("zero options of imported limits: %v, %v; want an error", limits, err)
	}
}

// A door on HTTP without an engine or rules answers 503, and Koala's API is off without
// Access.
func TestZeroDoorsOnHTTPRefuse(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	ask := func(h http.Handler, target string, want int) {
		t.Helper()
		r := httptest.NewRequest("GET", target, nil)
		r.RemoteAddr = "127.0.0.1:1"
		for _, header := range []string{
			"X-Original-Method: GET", "X-Original-URI: /", "X-Real-IP: 198.51.100.7",
			"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Forwarded-For: 198.51.100.7",
		} {
			name, value, _ := strings.Cut(header, ": ")
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %q; want %d", target, w.Code, w.Body, want)
		}
	}
	for _, e := range incomplete {
		for _, path := range []string{"/v1/auth-request", "/v1/forward-auth", "/v1/ext-authz/", "/v1/accel"} {
			ask(nginx.New(nginx.Options{Engine: e, Logger: quiet}), path, http.StatusServiceUnavailable)
		}
		ask(koala.New(koala.Options{Engine: e, Logger: quiet, Access: koala.Full}), "http://127.0.0.1/rule/browse?uid=ann", http.StatusServiceUnavailable)
		ask(koala.New(koala.Options{Engine: e, Logger: quiet}), "http://127.0.0.1/rule/browse?uid=ann", http.StatusForbidden)
	}
}
