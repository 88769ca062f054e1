package probe

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/printable"
)

const (
	failedCallAdvice = "Envoy's failure mode decides about such requests; koalagate's log and /readyz may have the reason."
	notOursAdvice    = "This server is not koalagate."
)

// probeGRPC calls koalagate as Envoy does.
func (p *prober) probeGRPC(ctx context.Context) {
	address, transport := "passthrough:"+p.Target.Host, insecure.NewCredentials()
	switch p.Target.Scheme {
	case "grpcs":
		transport = credentials.NewTLS(p.TLS)
	case "unix":
		address = "unix:" + p.Target.Path
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	if err != nil {
		p.fault("reach", err.Error(), "Want grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH.")
		return
	}
	defer conn.Close()
	switch {
	case !p.checkHealth(ctx, conn):
	case p.Domain != "":
		p.probeRateLimit(ctx, rlsv3.NewRateLimitServiceClient(conn))
	default:
		p.probeExtAuthz(ctx, authv3.NewAuthorizationClient(conn))
	}
}

// checkHealth makes the calls of Envoy's health checks and reports whether all
// services are serving. Envoy sends no requests to an instance that is not.
func (p *prober) checkHealth(ctx context.Context, conn *grpc.ClientConn) bool {
	client := healthv1.NewHealthClient(conn)
	for _, service := range []string{"", authv3.Authorization_ServiceDesc.ServiceName, rlsv3.RateLimitService_ServiceDesc.ServiceName} {
		name := service
		if name == "" {
			name = "the server"
		}
		answer, err := within(ctx, p.Timeout, func(ctx context.Context) (*healthv1.HealthCheckResponse, error) {
			return client.Check(ctx, &healthv1.HealthCheckRequest{Service: service})
		})
		switch {
		case grpcstatus.Code(err) == codes.Unavailable, grpcstatus.Code(err) == codes.DeadlineExceeded:
			p.fault("reach", grpcstatus.Convert(err).Message(), p.reachAdvice())
			return false
		case err != nil:
			p.fault("health", name+": "+grpcstatus.Convert(err).Message(), "Envoy's health checks would remove this instance.")
			return false
		case answer.GetStatus() != healthv1.HealthCheckResponse_SERVING:
			p.fault("health", name+" is "+answer.GetStatus().String(), "It is draining, or its rules are not loaded; see /readyz.")
			return false
		}
	}
	p.ok("health", "the server and both services are SERVING")
	return true
}

// reachAdvice returns the possible causes of a failed connection.
func (p *prober) reachAdvice() string {
	if p.Target.Scheme == "grpcs" {
		return "Check that koalagate runs, that this is its grpc_addr, and that it uses TLS (grpc_tls_cert).\n" +
			"--ca must be the authority of its certificate, which must name this host or --server-name;\n" +
			"with grpc_tls_client_ca it requires --cert."
	}
	return "No gRPC server without TLS answers: check that koalagate runs, and that this is its grpc_addr.\n" +
		"With grpc_tls_cert it requires grpcs://."
}

// isOpen reports whether the mode of the door lets all requests pass, and adds a
// fault then.
func (p *prober) isOpen(metadata *structpb.Struct) bool {
	verdict := metadata.GetFields()["verdict"].GetStringValue()
	if !strings.HasPrefix(verdict, "observed-") && verdict != "off" {
		return false
	}
	p.fault("refusal", "the door does not enforce decisions: its verdict is "+verdict, modesAdvice)
	return true
}

// checkRequest returns the request that ext_authz decides.
func (p *prober) checkRequest(r request) *authv3.CheckRequest {
	headers := make(map[string]string, len(r.header))
	for name, values := range r.header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	path, _, _ := strings.Cut(p.Path, "?")
	if r.query != "" {
		path += "?" + r.query
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: p.Peer},
		}}},
		Request: &authv3.AttributeContext_Request{
			Http: &authv3.AttributeContext_HttpRequest{Method: p.Method, Path: path, Host: p.Target.Hostname(), Scheme: "http", Headers: headers},
		},
	}}
}

// probeExtAuthz calls ext_authz until it denies.
func (p *prober) probeExtAuthz(ctx context.Context, client authv3.AuthorizationClient) {
	check := func(ctx context.Context, r request) (*authv3.CheckResponse, error) {
		return within(ctx, p.Timeout, func(ctx context.Context) (*authv3.CheckResponse, error) { return client.Check(ctx, p.checkRequest(r)) })
	}
	var metadata *structpb.Struct
	for i := 1; i <= p.Requests; i++ {
		answer, err := check(ctx, p.request())
		switch {
		case err != nil:
			p.fault("ext_authz", "check "+strconv.Itoa(i)+" failed: "+grpcstatus.Convert(err).Message(), failedCallAdvice)
			return
		case answer.GetStatus() == nil || answer.GetHttpResponse() == nil:
			p.fault("ext_authz", "the answer has no status or response, so Envoy lets the request pass", notOursAdvice)
			return
		case answer.GetErrorResponse() != nil:
			p.fault("ext_authz", "no store answers, so Envoy's failure mode decides", "Check Redis; see /readyz.")
			return
		case codes.Code(answer.GetStatus().GetCode()) != codes.OK:
			p.reportDenial(i, answer.GetDeniedResponse())
			p.checkChoices(ctx, func(ctx context.Context, r request) (outcome, error) {
				answer, err := check(ctx, r)
				switch {
				case err != nil || codes.Code(answer.GetStatus().GetCode()) != codes.OK:
					return refused, err
				case answer.GetDynamicMetadata().GetFields()["limit"] != nil:
					return passedFor, nil
				}
				return passed, nil
			})
			return
		}
		metadata = answer.GetDynamicMetadata()
		if p.isOpen(metadata) {
			return
		}
	}
	p.reportOpenService("ext_authz", metadata)
}

func (p *prober) reportDenial(i int, denied *authv3.DeniedHttpResponse) {
	values := make(map[string]string)
	names := make([]string, 0, len(denied.GetHeaders()))
	for _, h := range denied.GetHeaders() {
		values[strings.ToLower(h.GetHeader().GetKey())] = h.GetHeader().GetValue()
		names = append(names, h.GetHeader().GetKey())
	}
	code := int(denied.GetStatus().GetCode())
	p.ok("refusal", "check %d is denied with %d, by rule %s", i, code, values["x-koala-rule"])
	if code == 429 && values["retry-after"] == "" {
		p.note("headers", "the denial has no Retry-After: the request exceeds the whole limit, so it never fits")
	} else {
		p.ok("headers", "%s", strings.Join(names, ", "))
	}
}

// probeRateLimit calls the rate limit service until the limit is exceeded.
func (p *prober) probeRateLimit(ctx context.Context, client rlsv3.RateLimitServiceClient) {
	descriptor := &ratelimitv3.RateLimitDescriptor{}
	for _, e := range p.Descriptor {
		descriptor.Entries = append(descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
	}
	request := &rlsv3.RateLimitRequest{Domain: p.Domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor}}
	var metadata *structpb.Struct
	for i := 1; i <= p.Requests; i++ {
		answer, err := within(ctx, p.Timeout, func(ctx context.Context) (*rlsv3.RateLimitResponse, error) {
			return client.ShouldRateLimit(ctx, request)
		})
		switch {
		case err != nil:
			p.fault("ratelimit", "call "+strconv.Itoa(i)+" failed: "+grpcstatus.Convert(err).Message(), failedCallAdvice)
			return
		case len(answer.GetStatuses()) != 1:
			p.fault("ratelimit", fmt.Sprintf("got %d statuses for one descriptor", len(answer.GetStatuses())), notOursAdvice)
			return
		case answer.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT:
			p.ok("refusal", "call %d is OVER_LIMIT", i)
			s := answer.GetStatuses()[0]
			if l := s.GetCurrentLimit(); l != nil {
				p.ok("limit", "rule %s: %d in %d × %s, resets in %s", l.GetName(), l.GetRequestsPerUnit(),
					max(1, l.GetUnitMultiplier().GetValue()), l.GetUnit(), s.GetDurationUntilReset().AsDuration())
			}
			return
		}
		metadata = answer.GetDynamicMetadata()
		if p.isOpen(metadata) {
			return
		}
	}
	p.reportOpenService("the rate limit service", metadata)
}

// reportOpenService reports that a service refused nothing, with the quota of its
// last answer.
func (p *prober) reportOpenService(service string, metadata *structpb.Struct) {
	text := fmt.Sprintf("%s refused none of %s", service, printable.Count(p.Requests, "call"))
	if limit := metadata.GetFields()["limit"]; limit != nil {
		p.fault("refusal", fmt.Sprintf("%s, and %.0f of %.0f are left", text, metadata.GetFields()["remaining"].GetNumberValue(), limit.GetNumberValue()),
			"The limit was not reached: raise --requests.")
		return
	}
	p.fault("refusal", text, "No rule limits this request (see `koalagate explain`), or the limit of a quiet rule is above --requests.")
}

// within makes one call with a timeout.
func within[R any](ctx context.Context, timeout time.Duration, call func(context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}
