package probe_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/probe"
)

func entries(pairs ...string) []mapping.Entry {
	var list []mapping.Entry
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, mapping.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return list
}

// service answers the n-th call, starting at 1, of either service of koalagate.
type service struct {
	authv3.UnimplementedAuthorizationServer
	rlsv3.UnimplementedRateLimitServiceServer
	calls int
	check func(n int) (*authv3.CheckResponse, error)
	// checked replaces check, if it is not nil.
	checked func(*authv3.CheckRequest) (*authv3.CheckResponse, error)
	limit   func(n int) (*rlsv3.RateLimitResponse, error)
}

func (s *service) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	if s.checked != nil {
		return s.checked(r)
	}
	s.calls++
	return s.check(s.calls)
}

func (s *service) ShouldRateLimit(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	s.calls++
	return s.limit(s.calls)
}

// serve starts a server on a Unix socket and returns its URL.
func serve(t *testing.T, s *service, status healthv1.HealthCheckResponse_ServingStatus) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server, checks := grpc.NewServer(), health.NewServer()
	for _, name := range []string{"", authv3.Authorization_ServiceDesc.ServiceName, rlsv3.RateLimitService_ServiceDesc.ServiceName} {
		checks.SetServingStatus(name, status)
	}
	healthv1.RegisterHealthServer(server, checks)
	authv3.RegisterAuthorizationServer(server, s)
	rlsv3.RegisterRateLimitServiceServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return "unix:" + path
}

func metadata(t *testing.T, fields map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProbeOfExtAuthz(t *testing.T) {
	allowed := func(fields map[string]any) *authv3.CheckResponse {
		return &authv3.CheckResponse{
			Status: &statuspb.Status{}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{}}, DynamicMetadata: metadata(t, fields),
		}
	}
	denied := func(headers ...string) *authv3.CheckResponse {
		r := &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: 429}}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: headers[i], Value: headers[i+1]}})
		}
		return &authv3.CheckResponse{Status: &statuspb.Status{Code: int32(codes.PermissionDenied)}, HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: r}}
	}
	for name, c := range map[string]struct {
		check func(n int) (*authv3.CheckResponse, error)
		want  []string
	}{
		"denied": {func(n int) (*authv3.CheckResponse, error) {
			if n < 3 {
				return allowed(nil), nil
			}
			return denied("X-Koala-Rule", "201", "Retry-After", "60"), nil
		}, []string{"ok    health       the server and both services are SERVING", "check 3 is denied with 429, by rule 201", "ok    headers      X-Koala-Rule, Retry-After", "no faults"}},
		"never fits": {func(int) (*authv3.CheckResponse, error) { return denied(), nil }, []string{"note  headers      the denial has no Retry-After", "no faults"}},
		"no limit":   {func(int) (*authv3.CheckResponse, error) { return allowed(nil), nil }, []string{"FAULT refusal      ext_authz refused none of 10 calls\n", "1 fault"}},
		"a large limit": {func(int) (*authv3.CheckResponse, error) {
			return allowed(map[string]any{"limit": 50, "remaining": 40}), nil
		}, []string{"ext_authz refused none of 10 calls, and 40 of 50 are left"}},
		"observe": {func(int) (*authv3.CheckResponse, error) {
			return allowed(map[string]any{"verdict": "observed-deny"}), nil
		}, []string{"the door does not enforce decisions: its verdict is observed-deny"}},
		"failed":    {func(int) (*authv3.CheckResponse, error) { return nil, grpcstatus.Error(codes.Internal, "broken") }, []string{"FAULT ext_authz    check 1 failed: broken"}},
		"no status": {func(int) (*authv3.CheckResponse, error) { return &authv3.CheckResponse{}, nil }, []string{"the answer has no status or response", "This server is not koalagate."}},
		"no store": {func(int) (*authv3.CheckResponse, error) {
			return &authv3.CheckResponse{Status: &statuspb.Status{Code: int32(codes.Unavailable)}, HttpResponse: &authv3.CheckResponse_ErrorResponse{ErrorResponse: &authv3.DeniedHttpResponse{}}}, nil
		}, []string{"no store answers, so Envoy's failure mode decides"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, serve(t, &service{check: c.check}, healthv1.HealthCheckResponse_SERVING), nil)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in\n%s", want, got)
				}
			}
		})
	}
}

func TestProbeOfTheRateLimitService(t *testing.T) {
	answer := func(code rlsv3.RateLimitResponse_Code, statuses int, fields map[string]any) *rlsv3.RateLimitResponse {
		r := &rlsv3.RateLimitResponse{OverallCode: code, DynamicMetadata: metadata(t, fields)}
		for range statuses {
			r.Statuses = append(r.Statuses, &rlsv3.RateLimitResponse_DescriptorStatus{
				Code: code, CurrentLimit: &rlsv3.RateLimitResponse_RateLimit{Name: "301", RequestsPerUnit: 2, Unit: rlsv3.RateLimitResponse_RateLimit_HOUR},
			})
		}
		return r
	}
	for name, c := range map[string]struct {
		limit func(n int) (*rlsv3.RateLimitResponse, error)
		want  []string
	}{
		"over the limit": {func(n int) (*rlsv3.RateLimitResponse, error) {
			if n < 3 {
				return answer(rlsv3.RateLimitResponse_OK, 1, nil), nil
			}
			return answer(rlsv3.RateLimitResponse_OVER_LIMIT, 1, nil), nil
		}, []string{"ok    refusal      call 3 is OVER_LIMIT", "ok    limit        rule 301: 2 in 1 × HOUR, resets in 0s", "no faults"}},
		"no limit": {func(int) (*rlsv3.RateLimitResponse, error) { return answer(rlsv3.RateLimitResponse_OK, 1, nil), nil }, []string{"the rate limit service refused none of 10 calls\n", "1 fault"}},
		"off": {func(int) (*rlsv3.RateLimitResponse, error) {
			return answer(rlsv3.RateLimitResponse_OK, 1, map[string]any{"verdict": "off"}), nil
		}, []string{"its verdict is off"}},
		"no status":    {func(int) (*rlsv3.RateLimitResponse, error) { return answer(rlsv3.RateLimitResponse_OK, 0, nil), nil }, []string{"got 0 statuses for one descriptor"}},
		"failed calls": {func(int) (*rlsv3.RateLimitResponse, error) { return nil, grpcstatus.Error(codes.Unknown, "broken") }, []string{"FAULT ratelimit    call 1 failed: broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, serve(t, &service{limit: c.limit}, healthv1.HealthCheckResponse_SERVING), func(o *probe.Options) { o.Domain, o.Descriptor = "d", entries("a", "b") })
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in\n%s", want, got)
				}
			}
		})
	}
}

func TestProbeReportsHealth(t *testing.T) {
	got := run(t, serve(t, new(service), healthv1.HealthCheckResponse_NOT_SERVING), nil)
	if !strings.Contains(got, "FAULT health       the server is NOT_SERVING") {
		t.Error(got)
	}
	for url, want := range map[string]string{"grpc://127.0.0.1:1": "With grpc_tls_cert it requires grpcs://.", "grpcs://127.0.0.1:1": "--ca must be"} {
		if got := run(t, url, nil); !strings.Contains(got, "FAULT reach") || !strings.Contains(got, want) {
			t.Error(got)
		}
	}
}
