package extauthz

import (
	"net/http"
	"strconv"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// answer puts a decision into Envoy's words. Status and the kind of response
// are always both set: Envoy takes a reply without them for leave to pass.
func (s *Server) answer(check *authv3.CheckRequest, d *engine.Decision) *authv3.CheckResponse {
	switch {
	case d.Unavailable:
		return unavailable(d)
	case d.Verdict == rules.Allow:
		return s.allowed(check, d)
	}
	return s.denied(check, d)
}

// allowed lets the request through: the upstream hears of the decision, the
// client of its quota.
func (s *Server) allowed(check *authv3.CheckRequest, d *engine.Decision) *authv3.CheckResponse {
	var up, down [12]rules.Header
	upstream := d.DecisionHeaders(up[:0])
	client := engine.Sendable(d.ClientHeaders(down[:0], s.presentation))
	// All that every answer consists of is made in one piece.
	r := new(struct {
		reply  authv3.CheckResponse
		status rpcstatus.Status
		kind   authv3.CheckResponse_OkResponse
		ok     authv3.OkHttpResponse
	})
	r.status.Code = int32(codes.OK)
	r.ok.Headers, r.ok.ResponseHeadersToAdd = headerOptions(upstream, client)
	r.ok.HeadersToRemove = forged(check.GetAttributes().GetRequest().GetHttp(), upstream)
	r.kind.OkResponse = &r.ok
	r.reply.Status, r.reply.HttpResponse, r.reply.DynamicMetadata = &r.status, &r.kind, dynamicMetadata(d)
	return &r.reply
}

// denied refuses the request with what its client is to get.
func (s *Server) denied(check *authv3.CheckRequest, d *engine.Decision) *authv3.CheckResponse {
	var buffer [16]rules.Header
	result := d.Sets[d.Refuser].Result
	headers := d.ClientHeaders(buffer[:0], s.presentation)
	if result.GRPCStatus != 0 && isGRPC(check) {
		// Envoy keeps a grpc-status that is there, and else makes one of the
		// HTTP status.
		headers = append(headers, rules.Header{Name: "grpc-status", Value: strconv.Itoa(result.GRPCStatus)})
	}
	refusal := d.Refusal()
	reply := refuse(refusal, headers)
	if result.GRPCStatus != 0 {
		reply.Status.Code = int32(result.GRPCStatus)
	}
	reply.DynamicMetadata = dynamicMetadata(d)
	return reply
}

// problem refuses a request that cannot be decided.
func problem(status int, detail string) *authv3.CheckResponse {
	reply := refuse(engine.Problem(status, detail), nil)
	reply.DynamicMetadata = metadata("invalid")
	return reply
}

// unavailable leaves the decision to Envoy's failure mode. Where that denies,
// the client gets a 503.
func unavailable(d *engine.Decision) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status:          &rpcstatus.Status{Code: int32(codes.Unavailable)},
		HttpResponse:    &authv3.CheckResponse_ErrorResponse{ErrorResponse: new(denial).tell(d.Refusal(), nil)},
		DynamicMetadata: metadata("unavailable"),
	}
}

// refuse is a denial in one piece, as allowed is an allowance.
func refuse(told engine.Refusal, headers []rules.Header) *authv3.CheckResponse {
	r := new(struct {
		reply  authv3.CheckResponse
		status rpcstatus.Status
		kind   authv3.CheckResponse_DeniedResponse
		denial denial
	})
	r.status.Code = int32(grpcCode(told.Status))
	r.kind.DeniedResponse = r.denial.tell(told, headers)
	r.reply.Status, r.reply.HttpResponse = &r.status, &r.kind
	return &r.reply
}

// denial is what the client is to get, its two messages in one piece.
type denial struct {
	response authv3.DeniedHttpResponse
	status   typev3.HttpStatus
}

func (d *denial) tell(r engine.Refusal, headers []rules.Header) *authv3.DeniedHttpResponse {
	if r.Status < 200 || r.Status > 599 {
		r.Status = http.StatusForbidden // Envoy breaks the connection on others
	}
	d.status.Code = typev3.StatusCode(r.Status)
	d.response.Status = &d.status
	if r.Status != http.StatusNoContent && r.Status != http.StatusNotModified {
		d.response.Body = strings.ToValidUTF8(string(r.Body), "\uFFFD")
		headers = append(headers, rules.Header{Name: "Content-Type", Value: r.ContentType})
	}
	d.response.Headers, _ = headerOptions(engine.Sendable(headers), nil)
	return &d.response
}

// grpcCode is the code of a refusal. Envoy only tells it from OK; other
// callers may read it.
func grpcCode(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	}
	return codes.PermissionDenied
}

// isGRPC tells whether the client speaks gRPC, as Envoy does.
func isGRPC(check *authv3.CheckRequest) bool {
	kind, _ := headersOf(check.GetAttributes().GetRequest().GetHttp()).Header("content-type")
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}
