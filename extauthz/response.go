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

// room is what every answer consists of, in one piece.
type room struct {
	reply   authv3.CheckResponse
	status  rpcstatus.Status
	headers headerRoom
	told    metadataRoom
}

// allowed lets the request through: the upstream hears of the decision, the
// client of its quota.
func (s *Server) allowed(check *authv3.CheckRequest, d *engine.Decision) *authv3.CheckResponse {
	var up, down [12]rules.Header
	upstream := d.DecisionHeaders(up[:0])
	client := engine.Sendable(d.ClientHeaders(down[:0], s.presentation))
	r := new(struct {
		room
		kind authv3.CheckResponse_OkResponse
		ok   authv3.OkHttpResponse
	})
	r.status.Code = int32(codes.OK)
	r.ok.Headers, r.ok.ResponseHeadersToAdd = r.headers.options(upstream, client)
	r.ok.HeadersToRemove = forged(check.GetAttributes().GetRequest().GetHttp(), upstream)
	r.kind.OkResponse = &r.ok
	r.reply.Status, r.reply.HttpResponse, r.reply.DynamicMetadata = &r.status, &r.kind, r.told.dynamicMetadata(d)
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
	r := refuse(d.Refusal(), headers)
	if result.GRPCStatus != 0 {
		r.status.Code = int32(result.GRPCStatus)
	}
	r.reply.DynamicMetadata = r.told.dynamicMetadata(d)
	return &r.reply
}

// problem refuses a request that cannot be decided.
func problem(status int, detail string) *authv3.CheckResponse {
	r := refuse(engine.Problem(status, detail), nil)
	r.reply.DynamicMetadata = r.told.metadata("invalid")
	return &r.reply
}

// unavailable leaves the decision to Envoy's failure mode. Where that denies,
// the client gets a 503.
func unavailable(d *engine.Decision) *authv3.CheckResponse {
	r := new(denial)
	r.tell(d.Refusal(), nil)
	r.status.Code = int32(codes.Unavailable)
	r.reply.Status, r.reply.DynamicMetadata = &r.status, r.told.metadata("unavailable")
	r.reply.HttpResponse = &authv3.CheckResponse_ErrorResponse{ErrorResponse: &r.response}
	return &r.reply
}

// refuse is a denial without metadata.
func refuse(told engine.Refusal, headers []rules.Header) *denial {
	r := new(denial)
	r.tell(told, headers)
	r.status.Code = int32(grpcCode(told.Status))
	r.kind.DeniedResponse = &r.response
	r.reply.Status, r.reply.HttpResponse = &r.status, &r.kind
	return r
}

// denial is an answer that refuses.
type denial struct {
	room
	kind     authv3.CheckResponse_DeniedResponse
	response authv3.DeniedHttpResponse
	http     typev3.HttpStatus
}

// tell makes the response of what the client is to get.
func (d *denial) tell(r engine.Refusal, headers []rules.Header) {
	if r.Status < 200 || r.Status > 599 {
		r.Status = http.StatusForbidden // Envoy breaks the connection on others
	}
	d.http.Code = typev3.StatusCode(r.Status)
	d.response.Status = &d.http
	if r.Status != http.StatusNoContent && r.Status != http.StatusNotModified {
		d.response.Body = strings.ToValidUTF8(string(r.Body), "\uFFFD")
		headers = append(headers, rules.Header{Name: "Content-Type", Value: r.ContentType})
	}
	d.response.Headers, _ = d.headers.options(engine.Sendable(headers), nil)
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
