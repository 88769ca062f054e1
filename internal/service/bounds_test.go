package service

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/rlqs"
)

// run runs a service until the test ends.
func run(t *testing.T, s *Service) {
	t.Helper()
	t.Cleanup(start(t, s))
}

// start runs a service until stop, which waits for its end.
func start(t *testing.T, s *Service) (stop func()) {
	t.Helper()
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), signals, nil) }()
	return func() {
		signals <- syscall.SIGTERM
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func dialGRPC(t *testing.T, s *Service) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.Addresses().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Requests beyond the bounds of rules, parameters and descriptors are counted.
func TestBoundsOfRequestsAreCountedAndLogged(t *testing.T) {
	s, text := open(t, map[string]any{"max_params": 16, "max_value": 64, "max_descriptors": 2, "log_max_lines": 5})
	run(t, s)
	var query strings.Builder
	for i := range 20 {
		fmt.Fprintf(&query, "&a%d=1", i)
	}
	get(t, s.Addresses().HTTP, "/rule/browse?uid="+strings.Repeat("x", 65)+query.String())
	_, err := rlsv3.NewRateLimitServiceClient(dialGRPC(t, s)).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{
		Domain: "lab", Descriptors: []*commonv3.RateLimitDescriptor{{}, {}, {}},
	})
	if grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("three descriptors of at most two: %v", err)
	}
	for _, bound := range []string{"params", "value_size", "descriptors"} {
		wantBound(t, s, text, bound, "1")
	}
	for range 100 {
		s.logger.Info("a line")
	}
	_, body := get(t, s.Addresses().Admin, "/metrics")
	if strings.Contains(body, `{bound="log_lines"} 0`) || strings.Count(text.String(), "a line") > 60 {
		t.Errorf("100 lines were logged, with at most five per second:\n%s", text)
	}
}

// docs/bounds.md has a row for each bound, with the default of its setting.
func TestManualHasEveryBound(t *testing.T) {
	page, err := os.ReadFile("../../docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, nil)
	run(t, s)
	_, exported := get(t, s.Addresses().Admin, "/metrics")
	missing := map[string]bool{boundLogLines: true}
	for name := range boundRemedies {
		missing[name] = true
	}
	fixed := []string{rlqs.BoundStreams, rlqs.BoundBuckets, rlqs.BoundID, boundSettlementTime} // without a setting
	for _, name := range fixed {
		if strings.Contains(string(page), "`bound="+name+"`") {
			delete(missing, name)
		}
	}
	defaults := reflect.ValueOf(config.Default())
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\| ([^|]+) \\| `([^|`]+)` \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		setting, value, metric := row[1], row[2], row[4]
		if bound, found := strings.CutPrefix(metric, "bound="); found {
			if delete(missing, bound); !strings.Contains(exported, `koalagate_bounds_total{bound="`+bound+`"} `) {
				t.Errorf("%s: /metrics has no bound %s", setting, bound)
			}
		} else if !strings.Contains(exported, "# TYPE "+metric+" ") {
			t.Errorf("%s: /metrics has no %s", setting, metric)
		}
		want := "no setting of this name"
		for _, field := range reflect.VisibleFields(defaults.Type()) {
			if field.Tag.Get("koanf") == setting {
				want = strings.TrimSuffix(fmt.Sprint(defaults.FieldByIndex(field.Index).Interface()), "m0s")
			}
		}
		if strings.TrimSuffix(value, "m") != want {
			t.Errorf("%s has the default %s; want %s", setting, value, want)
		}
	}
	if len(missing) > 0 || len(rows) < len(boundRemedies)-len(fixed) {
		t.Errorf("%d rows; docs/bounds.md has no row for %v", len(rows), slices.Sorted(maps.Keys(missing)))
	}
}

// Requests that are too large or too slow fail, are counted and are logged.
func TestBoundsOfCallsAreCountedAndLogged(t *testing.T) {
	s, text := open(t, map[string]any{"grpc_max_message": 100_000, "grpc_receive_timeout": "1m"})
	run(t, s)
	conn := dialGRPC(t, s)
	check := func(size int) error {
		_, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "POST", Path: "/", HeaderMap: &corev3.HeaderMap{}, RawBody: make([]byte, size),
			}},
		}})
		return err
	}
	if err := check(90_000); err != nil {
		t.Errorf("a request below the maximum: %v", err)
	}
	if err := check(110_000); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request above the maximum: %v", err)
	}
	wantBound(t, s, text, "message_size", "1")
}

// A call without a request, from a caller that sets no deadline, ends, is counted and is
// logged.
func TestCallsWithoutTheirRequestsAreCountedAndLogged(t *testing.T) {
	s, text := open(t, map[string]any{"grpc_receive_timeout": "100ms"})
	run(t, s)
	conn := dialGRPC(t, s)
	method := "/envoy.service.auth.v3.Authorization/Check"
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(authv3.CheckResponse)); grpcstatus.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call without a request: %v", err)
	}
	wantBound(t, s, text, "call_timeout", "1")
	if _, body := get(t, s.Addresses().Admin, "/metrics"); !strings.Contains(body, `koalagate_bounds_total{bound="resets"} 0`) {
		t.Error("/metrics has no bound resets, or one is counted")
	}
}
