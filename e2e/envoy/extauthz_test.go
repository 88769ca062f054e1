package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// extAuthzFacts is an Envoy whose ext_authz filters call a scripted service.
type extAuthzFacts struct {
	stub  *stub
	app   *mirror
	envoy *e2e.Gateway
}

// How Envoy treats the answers of an ext_authz service, and what it sends:
// docs/gateways/facts.md.
func TestEnvoyExtAuthzFacts(t *testing.T) {
	h := rig.NewFixture(t)
	f := &extAuthzFacts{stub: newStub(t), app: newMirror(t)}
	f.envoy = rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(f.app.Address, rig.Cluster("koalagate", f.stub.Address, rig.HTTP2),
		rig.Listener{
			Name: "strict", Filters: []string{tenantMetadata, extAuthz(rig.Ample, `status_on_error: { code: 503 }, metadata_context_namespaces: [ facts ], route_metadata_context_namespaces: [ facts.route ]`)},
			Route: `metadata: { filter_metadata: { facts.route: { tier: gold } } }, typed_per_filter_config: { envoy.filters.http.ext_authz: { "@type": ` + rig.TypeURL + `filters.http.ext_authz.v3.ExtAuthzPerRoute, check_settings: { context_extensions: { act: route } } } }`,
		},
		rig.Listener{Name: "open", Filters: []string{extAuthz("0.5s", `failure_mode_allow: true`)}},
		rig.Listener{Name: "default", Filters: []string{extAuthz("", "")}},
		rig.Listener{Name: "raw", Filters: []string{extAuthz(rig.Ample, `encode_raw_headers: true`)}},
		rig.Listener{Name: "few", Filters: []string{extAuthz(rig.Ample, `allowed_headers: { patterns: [ { exact: x-user } ] }`)}},
		rig.Listener{Name: "behind", Filters: []string{extAuthz(rig.Ample, "")}, Manager: "xff_num_trusted_hops: 1"},
		rig.Listener{Name: "tls", Filters: []string{extAuthz(rig.Ample, `include_peer_certificate: true, include_tls_session: true`)}, TLS: mutualTLS(h)},
	)))(t)

	t.Run("GW-1 an empty reply allows", f.emptyAllows)
	t.Run("GW-2 the status alone decides", f.statusDecides)
	t.Run("GW-3 an error is not a denial", f.errorIsNoDenial)
	t.Run("GW-4 a denied status below 200 breaks the connection", f.deniedStatus)
	t.Run("GW-5 headers of a denial are appended", f.deniedHeadersAppend)
	t.Run("GW-6 headers for the upstream overwrite", f.upstreamHeadersOverwrite)
	t.Run("GW-7 headers are removed in any spelling", f.removedHeaders)
	t.Run("GW-8 headers for the client honor the append action", f.clientHeaders)
	t.Run("GW-9 a newline in a value breaks the response", f.newlineBreaks)
	t.Run("GW-10 a query parameter is not encoded", f.queryParameters)
	t.Run("GW-11 the default deadline is 200 ms", f.defaultDeadline)
	t.Run("GW-12 an error response leaves it to the failure mode", f.errorResponse)
	t.Run("GW-13 dynamic metadata reaches the log", f.dynamicMetadata)
	t.Run("GW-14 headers have two forms", f.headerForms)
	t.Run("GW-15 path and host arrive as they were sent", f.rawPath)
	t.Run("GW-16 the source is the peer", f.sourceIsPeer)
	t.Run("GW-28 Envoy sets the external address", f.externalAddress)
	t.Run("GW-17 context and metadata are sent", f.contextAndMetadata)
	t.Run("GW-18 the certificate names the principal", func(t *testing.T) { f.principal(t, h) })
	t.Run("GW-19 a gRPC client gets status 14", f.grpcClient)
	t.Run("GW-20 a denial keeps the client's connection", f.denialKeepsConnection)
}

// tenantMetadata converts the header X-Tenant to metadata, as an authentication
// filter does with a token.
const tenantMetadata = `{ name: envoy.filters.http.header_to_metadata, typed_config: { "@type": ` + rig.TypeURL + `filters.http.header_to_metadata.v3.Config, request_rules: [ { header: x-tenant, on_header_present: { metadata_namespace: facts, key: tenant } } ] } }`

// checkReply returns a reply with this code and kind.
func checkReply(code codes.Code, kind any) *authv3.CheckResponse {
	r := &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(code)}}
	switch kind := kind.(type) {
	case *authv3.OkHttpResponse:
		r.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: kind}
	case *authv3.DeniedHttpResponse:
		r.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: kind}
	case errorResponse:
		r.HttpResponse = &authv3.CheckResponse_ErrorResponse{ErrorResponse: kind.DeniedHttpResponse}
	}
	return r
}

// errorResponse distinguishes an error response from a denial, which has the same
// message type.
type errorResponse struct{ *authv3.DeniedHttpResponse }

func denied(status int, body string, headers ...*corev3.HeaderValueOption) *authv3.DeniedHttpResponse {
	return &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(status)}, Body: body, Headers: headers}
}

// option returns a header of a reply with its append action.
func option(name, value string, action corev3.HeaderValueOption_HeaderAppendAction) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: action}
}

const (
	unset     = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	overwrite = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	ifAbsent  = corev3.HeaderValueOption_ADD_IF_ABSENT
)

// get sets the service's answer and requests a path from a listener.
func (f *extAuthzFacts) get(t *testing.T, on, path string, reply *authv3.CheckResponse, headers ...string) rig.Reply {
	t.Helper()
	f.stub.onCheck(path, reply, nil)
	return rig.Send(t, "GET", "http://"+f.envoy.Listeners[on]+path, headers...)
}

func wantIs(t *testing.T, r rig.Reply, status int, body string) {
	t.Helper()
	if r.Status != status || r.Body != body {
		t.Errorf("the client got %d %q; want %d %q", r.Status, r.Body, status, body)
	}
}

func (f *extAuthzFacts) emptyAllows(t *testing.T) {
	wantIs(t, f.get(t, "strict", "/empty", &authv3.CheckResponse{}), 200, "app")
}

func (f *extAuthzFacts) statusDecides(t *testing.T) {
	no := denied(401, "no")
	absent := checkReply(0, no)
	absent.Status = nil
	wantIs(t, f.get(t, "strict", "/status-absent", absent), 200, "app")
	wantIs(t, f.get(t, "strict", "/status-ok-denied", checkReply(codes.OK, no)), 200, "app")
	wantIs(t, f.get(t, "strict", "/status-ok-error", checkReply(codes.OK, errorResponse{no})), 200, "app")
	wantIs(t, f.get(t, "strict", "/status-denied-ok", checkReply(codes.PermissionDenied, &authv3.OkHttpResponse{})), 403, "")
	wantIs(t, f.get(t, "strict", "/status-denied", checkReply(codes.ResourceExhausted, no)), 401, "no")
}

func (f *extAuthzFacts) errorIsNoDenial(t *testing.T) {
	for _, code := range []codes.Code{codes.PermissionDenied, codes.ResourceExhausted, codes.Unavailable, codes.Internal} {
		path := "/error-" + code.String()
		f.stub.onCheck(path, nil, status.Error(code, "no"))
		wantIs(t, rig.Send(t, "GET", "http://"+f.envoy.Listeners["open"]+path), 200, "app")
		wantIs(t, rig.Send(t, "GET", "http://"+f.envoy.Listeners["strict"]+path), 503, "")
	}
}

func (f *extAuthzFacts) deniedStatus(t *testing.T) {
	for _, code := range []int{200, 302, 429, 499, 599} {
		wantIs(t, f.get(t, "strict", fmt.Sprint("/denied-", code), checkReply(codes.PermissionDenied, denied(code, "x"))), code, "x")
	}
	f.stub.onCheck("/denied-42", checkReply(codes.PermissionDenied, denied(42, "x")), nil)
	if r, err := rig.TrySend("GET", "http://"+f.envoy.Listeners["strict"]+"/denied-42"); err == nil {
		t.Errorf("the client got %d; want its connection broken", r.Status)
	}
}

func (f *extAuthzFacts) deniedHeadersAppend(t *testing.T) {
	r := f.get(t, "strict", "/denied-headers", checkReply(codes.PermissionDenied, denied(403, "",
		option("x-unset", "1", unset), option("x-unset", "2", unset),
		option("x-over", "1", overwrite), option("x-over", "2", overwrite),
		option("x-absent", "1", ifAbsent), option("x-absent", "2", ifAbsent))))
	for _, name := range []string{"X-Unset", "X-Over", "X-Absent"} {
		rig.WantHeader(t, r.Header, name, "1", "2")
	}
}

func (f *extAuthzFacts) upstreamHeadersOverwrite(t *testing.T) {
	f.get(t, "strict", "/upstream", checkReply(codes.OK, &authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{
		option("x-over", "ours", overwrite), option("x-unset", "ours", unset), option("x-new", "ours", overwrite),
	}}), "X-Over: client", "X-Over: client again", "X-Unset: client")
	got := f.app.reached("/upstream")[0].Header
	rig.WantHeader(t, got, "X-Over", "ours")
	rig.WantHeader(t, got, "X-Unset", "ours")
	rig.WantHeader(t, got, "X-New", "ours")
}

func (f *extAuthzFacts) removedHeaders(t *testing.T) {
	f.get(t, "strict", "/removed", checkReply(codes.OK, &authv3.OkHttpResponse{HeadersToRemove: []string{"X-GONE", "Host", ":path"}}),
		"X-Gone: 1", "x-gone: 2", "X-Stays: 1")
	got := f.app.reached("/removed")[0]
	rig.WantHeader(t, got.Header, "X-Gone")
	rig.WantHeader(t, got.Header, "X-Stays", "1")
	if got.Host == "" {
		t.Error("the host was removed; want Envoy to keep it")
	}
}

func (f *extAuthzFacts) clientHeaders(t *testing.T) {
	for path, action := range map[string]corev3.HeaderValueOption_HeaderAppendAction{"/client-over": overwrite, "/client-unset": unset} {
		r := f.get(t, "strict", path, checkReply(codes.OK, &authv3.OkHttpResponse{ResponseHeadersToAdd: []*corev3.HeaderValueOption{
			option("x-from-app", "ours", action), option("x-new", "ours", action),
		}}))
		rig.WantHeader(t, r.Header, "X-New", "ours")
		if action == overwrite {
			rig.WantHeader(t, r.Header, "X-From-App", "ours")
		} else {
			rig.WantHeader(t, r.Header, "X-From-App", "app", "ours")
		}
	}
}

func (f *extAuthzFacts) newlineBreaks(t *testing.T) {
	for name, value := range map[string]string{"newline": "a\nb", "nul": "a\x00b"} {
		path := "/value-" + name
		f.stub.onCheck(path, checkReply(codes.PermissionDenied, denied(429, "slow", option("x-bad", value, overwrite))), nil)
		if r, err := rig.TrySend("GET", "http://"+f.envoy.Listeners["strict"]+path); err == nil && r.Status == 429 {
			t.Errorf("%s: the client got the 429, %v; Envoy passes it on", name, r.Header)
		}
	}
}

func (f *extAuthzFacts) queryParameters(t *testing.T) {
	f.stub.onCheck("/query?a=1", checkReply(codes.OK, &authv3.OkHttpResponse{
		QueryParametersToSet: []*corev3.QueryParameter{{Key: "a", Value: "x&b=2"}},
	}), nil)
	rig.WantStatus(t, 200, "GET", "http://"+f.envoy.Listeners["strict"]+"/query?a=1")
	if got := f.app.reached("/query")[0].URL.RawQuery; got != "a=x&b=2" {
		t.Errorf("the application got the query %q; want a=x&b=2, a second parameter", got)
	}
}

func (f *extAuthzFacts) errorResponse(t *testing.T) {
	r := checkReply(codes.Unavailable, errorResponse{denied(503, "away", option("x-err", "1", overwrite))})
	wantIs(t, f.get(t, "open", "/error-response", r), 200, "app")
	strict := f.get(t, "strict", "/error-response", r)
	wantIs(t, strict, 503, "away")
	rig.WantHeader(t, strict.Header, "X-Err", "1")
}

func (f *extAuthzFacts) dynamicMetadata(t *testing.T) {
	for path, r := range map[string]*authv3.CheckResponse{
		"/metadata-allow": checkReply(codes.OK, &authv3.OkHttpResponse{}),
		"/metadata-deny":  checkReply(codes.PermissionDenied, denied(403, "")),
	} {
		r.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"rule": structpb.NewNumberValue(201)}}
		f.get(t, "strict", path, r)
		wantLogged(t, f.envoy, "ACCESS "+path, `"rule":201`)
	}
}

// wantLogged waits for the log line that begins with begin, and checks that it
// contains want.
func wantLogged(t *testing.T, g *e2e.Gateway, begin, want string) {
	t.Helper()
	found := ""
	rig.WaitUntil(t, "Envoy logs "+begin, func() bool {
		for line := range strings.Lines(g.Log()) {
			if strings.HasPrefix(line, begin+" ") && strings.HasSuffix(line, "\n") {
				found = line
			}
		}
		return found != ""
	})
	if !strings.Contains(found, want) {
		t.Errorf("Envoy logs %q; want %s in it", found, want)
	}
}

// allowed returns a reply that allows.
func allowed() *authv3.CheckResponse { return checkReply(codes.OK, nil) }

func (f *extAuthzFacts) grpcClient(t *testing.T) {
	r := f.get(t, "strict", "/grpc", checkReply(codes.ResourceExhausted, denied(429, "slow")), "Content-Type: application/grpc")
	if r.Status != 200 {
		t.Errorf("a gRPC client got %d; want 200", r.Status)
	}
	rig.WantHeader(t, r.Header, "Grpc-Status", "14")
	rig.WantHeader(t, r.Header, "Grpc-Message", "slow")
	named := checkReply(codes.ResourceExhausted, denied(429, "slow", option("grpc-status", "8", overwrite)))
	rig.WantHeader(t, f.get(t, "strict", "/grpc-named", named, "Content-Type: application/grpc").Header, "Grpc-Status", "8")
}

// denialKeepsConnection sends a body with each refused request, which must not make
// the next request unreadable.
func (f *extAuthzFacts) denialKeepsConnection(t *testing.T) {
	f.stub.onCheck("/kept", checkReply(codes.PermissionDenied, denied(429, "slow")), nil)
	for _, r := range rig.OverOneConnection(t, f.envoy.Listeners["strict"], "/kept", 5) {
		wantIs(t, r, 429, "slow")
	}
	if len(f.app.reached("/kept")) != 0 {
		t.Error("a denied request reached the application")
	}
}
