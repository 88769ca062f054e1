package main

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
)

// probeGRPC asks a koalagate, as Envoy would.
func (p *probe) probeGRPC(ctx context.Context) {
	address, secrecy := "passthrough:"+p.target.Host, insecure.NewCredentials()
	switch p.target.Scheme {
	case "grpcs":
		secrecy = credentials.NewTLS(p.tls.config)
	case "unix":
		address = "unix:" + p.target.Path
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(secrecy))
	if err != nil {
		p.report.fault("reach", err.Error(), "Want grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH.")
		return
	}
	defer conn.Close()
	if !p.health(ctx, conn) {
		return
	}
	if p.domain != "" {
		p.limits(ctx, rlsv3.NewRateLimitServiceClient(conn))
		return
	}
	p.checks(ctx, authv3.NewAuthorizationClient(conn))
}

// health asks what Envoy's health checks ask. A cluster that is checked sends
// nothing to an instance that does not serve.
func (p *probe) health(ctx context.Context, conn *grpc.ClientConn) bool {
	client := healthv1.NewHealthClient(conn)
	for _, service := range []string{"", authv3.Authorization_ServiceDesc.ServiceName, rlsv3.RateLimitService_ServiceDesc.ServiceName} {
		name := service
		if name == "" {
			name = "the server"
		}
		answer, err := within(ctx, p.timeout, func(ctx context.Context) (*healthv1.HealthCheckResponse, error) {
			return client.Check(ctx, &healthv1.HealthCheckRequest{Service: service})
		})
		switch {
		case grpcstatus.Code(err) == codes.Unavailable, grpcstatus.Code(err) == codes.DeadlineExceeded:
			p.report.fault("reach", grpcstatus.Convert(err).Message(), p.mendReach())
			return false
		case err != nil:
			p.report.fault("health", name+": "+grpcstatus.Convert(err).Message(), "Envoy's health checks would take this instance out.")
			return false
		case answer.GetStatus() != healthv1.HealthCheckResponse_SERVING:
			p.report.fault("health", name+" is "+answer.GetStatus().String(), "It drains, or its rules are not loaded: see /readyz.")
			return false
		}
	}
	p.report.ok("health", "the server and both services are SERVING")
	return true
}

// mendReach says what may keep a probe from an instance.
func (p *probe) mendReach() string {
	if p.target.Scheme == "grpcs" {
		return "Is koalagate up, is this its grpc_addr, and does it speak TLS (grpc_tls_cert)? --ca must be the authority\n" +
			"of its certificate, which has to name this host or --server-name; with grpc_tls_client_ca it wants --cert."
	}
	return "Nothing that speaks gRPC without TLS answers there: is koalagate up, and is this its grpc_addr?\n" +
		"With grpc_tls_cert it wants grpcs://."
}

// notEnforcing tells of a door whose mode lets everything through.
func (p *probe) notEnforcing(told *structpb.Struct) bool {
	verdict := told.GetFields()["verdict"].GetStringValue()
	if !strings.HasPrefix(verdict, "observed-") && verdict != "off" {
		return false
	}
	p.report.fault("refusal", "the door does not enforce: it says "+verdict, "`curl ADMIN_ADDR/modes` tells, and changes it.")
	return true
}

// checks asks ext_authz until it denies.
func (p *probe) checks(ctx context.Context, client authv3.AuthorizationClient) {
	headers := make(map[string]string, len(p.header))
	for name, values := range p.header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: p.peer},
		}}},
		Request: &authv3.AttributeContext_Request{
			Http: &authv3.AttributeContext_HttpRequest{Method: p.method, Path: p.path, Host: p.target.Hostname(), Scheme: "http", Headers: headers},
		},
	}}
	var told *structpb.Struct
	for i := 1; i <= p.requests; i++ {
		answer, err := within(ctx, p.timeout, func(ctx context.Context) (*authv3.CheckResponse, error) { return client.Check(ctx, request) })
		switch {
		case err != nil:
			p.report.fault("ext_authz", "check "+strconv.Itoa(i)+" fails: "+grpcstatus.Convert(err).Message(), "Envoy's failure mode decides about such requests; the log and /readyz may say why.")
			return
		case answer.GetStatus() == nil || answer.GetHttpResponse() == nil:
			p.report.fault("ext_authz", "an answer without status or response, which Envoy takes for leave to pass", "This is no koalagate.")
			return
		case answer.GetErrorResponse() != nil:
			p.report.fault("ext_authz", "no store can answer, and the decision is left to Envoy's failure mode", "See /readyz for Redis.")
			return
		case codes.Code(answer.GetStatus().GetCode()) != codes.OK:
			p.denied(i, answer)
			return
		}
		told = answer.GetDynamicMetadata()
		if p.notEnforcing(told) {
			return
		}
	}
	p.openGRPC("ext_authz", told)
}

func (p *probe) denied(i int, answer *authv3.CheckResponse) {
	denied := answer.GetDeniedResponse()
	told := make(map[string]string)
	names := make([]string, 0, len(denied.GetHeaders()))
	for _, h := range denied.GetHeaders() {
		told[strings.ToLower(h.GetHeader().GetKey())] = h.GetHeader().GetValue()
		names = append(names, h.GetHeader().GetKey())
	}
	code := int(denied.GetStatus().GetCode())
	p.report.ok("refusal", "check %d is denied with %d, by rule %s", i, code, told["x-koala-rule"])
	if code == 429 && told["retry-after"] == "" {
		p.report.note("headers", "the denial has no Retry-After: more is asked for than the limit ever holds")
	} else {
		p.report.ok("headers", "%s", strings.Join(names, ", "))
	}
}

// limits asks the rate limit service until it is over the limit.
func (p *probe) limits(ctx context.Context, client rlsv3.RateLimitServiceClient) {
	descriptor := &ratelimitv3.RateLimitDescriptor{}
	for _, entry := range p.descriptor {
		key, value, _ := strings.Cut(entry, "=")
		descriptor.Entries = append(descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	request := &rlsv3.RateLimitRequest{Domain: p.domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor}}
	var told *structpb.Struct
	for i := 1; i <= p.requests; i++ {
		answer, err := within(ctx, p.timeout, func(ctx context.Context) (*rlsv3.RateLimitResponse, error) {
			return client.ShouldRateLimit(ctx, request)
		})
		if err != nil {
			p.report.fault("ratelimit", "call "+strconv.Itoa(i)+" fails: "+grpcstatus.Convert(err).Message(), "Envoy's failure mode decides about such requests; the log and /readyz may say why.")
			return
		}
		if len(answer.GetStatuses()) != 1 {
			p.report.fault("ratelimit", plural(len(answer.GetStatuses()), "status")+" for one descriptor", "This is no koalagate.")
			return
		}
		if answer.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
			s := answer.GetStatuses()[0]
			p.report.ok("refusal", "call %d is OVER_LIMIT", i)
			if l := s.GetCurrentLimit(); l != nil {
				p.report.ok("limit", "rule %s: %d in %d × %s, as new in %s", l.GetName(), l.GetRequestsPerUnit(),
					max(1, l.GetUnitMultiplier().GetValue()), l.GetUnit(), s.GetDurationUntilReset().AsDuration())
			}
			return
		}
		told = answer.GetDynamicMetadata()
		if p.notEnforcing(told) {
			return
		}
	}
	p.openGRPC("the rate limit service", told)
}

// openGRPC tells of a service that refused nothing, and what its last answer
// told of the quota.
func (p *probe) openGRPC(service string, told *structpb.Struct) {
	what := fmt.Sprintf("%s refused none of %s", service, plural(p.requests, "call"))
	if limit := told.GetFields()["limit"]; limit != nil {
		p.report.fault("refusal", fmt.Sprintf("%s, and %.0f of %.0f are left", what, told.GetFields()["remaining"].GetNumberValue(), limit.GetNumberValue()),
			"That the limit holds is not shown: give --requests more.")
		return
	}
	p.report.fault("refusal", what, "Either no rule limits this (`koalagate explain` tells), or a quiet one has more room than --requests.")
}

// within makes one call with a deadline of its own.
func within[R any](ctx context.Context, timeout time.Duration, call func(context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}
