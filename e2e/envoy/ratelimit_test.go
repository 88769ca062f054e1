package envoy_test

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// rateLimitFacts is an Envoy whose rate limit filters call a scripted service.
type rateLimitFacts struct {
	stub  *stub
	app   *mirror
	envoy *e2e.Gateway
}

// How Envoy treats the answers of a rate limit service, and what it sends:
// docs/gateways/facts.md.
func TestEnvoyRateLimitFacts(t *testing.T) {
	h := rig.NewFixture(t)
	f := &rateLimitFacts{stub: newStub(t), app: newMirror(t)}
	f.envoy = rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(f.app.Address, rig.Cluster("koalagate", f.stub.Address, rig.HTTP2),
		rig.Listener{
			Name: "strict", Filters: []string{rig.RateLimit(rig.Ample, `failure_mode_deny: true, status_on_error: { code: 503 }, enable_x_ratelimit_headers: DRAFT_VERSION_03, enable_retry_after_header: true`)},
			RateLimit: `[ ` + scripted + ` ]`,
		},
		rig.Listener{Name: "open", Filters: []string{rig.RateLimit("0.5s", "")}, RateLimit: `[ ` + scripted + ` ]`},
		rig.Listener{Name: "default", Filters: []string{rig.RateLimit("", "")}, RateLimit: `[ ` + scripted + ` ]`},
		rig.Listener{
			Name: "odd", Filters: []string{rig.RateLimit(rig.Ample, "")},
			RateLimit: `[ ` + scripted + `,
              { actions: [ { generic_key: { descriptor_key: k, descriptor_value: a } } ] }, { actions: [ { generic_key: { descriptor_key: k, descriptor_value: a } } ] },
              { actions: [ { request_headers: { header_name: x-empty, descriptor_key: empty } } ] },
              { actions: [ { request_headers: { header_name: x-none, descriptor_key: absent, skip_if_absent: true } } ] },
              { actions: [ { remote_address: {} } ] },
              { actions: [ { generic_key: { descriptor_key: k, descriptor_value: own } } ], limit: { rate_limit: { requests_per_unit: 42, unit: HOUR } } } ]`,
		},
		rig.Listener{
			Name: "hits", Filters: []string{rig.RateLimit(rig.Ample, "")},
			Route: rig.PerRoute(scripted + `,
              { actions: [ { generic_key: { descriptor_key: k, descriptor_value: look } } ], hits_addend: { number: 0 } },
              { actions: [ { generic_key: { descriptor_key: k, descriptor_value: three } } ], hits_addend: { number: 3 } },
              { actions: [ { generic_key: { descriptor_key: k, descriptor_value: back } } ], hits_addend: { number: 2, is_negative_hits: true } },
              { actions: [ { request_headers: { header_name: x-script, descriptor_key: script } }, { generic_key: { descriptor_key: k, descriptor_value: done } } ], hits_addend: { format: "%BYTES_SENT%" }, apply_on_stream_done: true }`),
		},
	)))(t)

	t.Run("GW-31 the overall code alone decides", f.overallDecides)
	t.Run("GW-32 descriptors may be empty, equal or without entries", f.oddDescriptors)
	t.Run("GW-33 hits are set, zero, negative, and sent when the stream is done", f.hits)
	t.Run("GW-34 a limit is sent", f.override)
	t.Run("GW-35 Envoy builds the quota headers", f.quotaHeaders)
	t.Run("GW-36 the reset is truncated to whole seconds", f.reset)
	t.Run("GW-37 headers of the service are added to Envoy's", f.doubledHeaders)
	t.Run("GW-38 the raw body goes to the client", f.rawBody)
	t.Run("GW-39 the default deadline is 20 ms", f.defaultDeadline)
	t.Run("GW-40 dynamic metadata of the rate limit reaches the log", f.dynamicMetadata)
	t.Run("GW-41 an error is left to the failure mode", f.failureMode)
	t.Run("GW-42 a gRPC client over its limit gets status 14", f.grpcClient)
}

const (
	okCode    = rlsv3.RateLimitResponse_OK
	overLimit = rlsv3.RateLimitResponse_OVER_LIMIT
)

// limitReply returns a reply with these statuses.
func limitReply(overall rlsv3.RateLimitResponse_Code, statuses ...*rlsv3.RateLimitResponse_DescriptorStatus) *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{OverallCode: overall, Statuses: statuses}
}

// descriptorStatus returns a descriptor's status with a limit of 10 per minute times
// multiplier.
func descriptorStatus(code rlsv3.RateLimitResponse_Code, name string, multiplier uint32, reset time.Duration) *rlsv3.RateLimitResponse_DescriptorStatus {
	return &rlsv3.RateLimitResponse_DescriptorStatus{
		Code: code, LimitRemaining: 7, DurationUntilReset: durationpb.New(reset),
		CurrentLimit: &rlsv3.RateLimitResponse_RateLimit{
			Name: name, RequestsPerUnit: 10, Unit: rlsv3.RateLimitResponse_RateLimit_MINUTE, UnitMultiplier: wrapperspb.UInt32(multiplier),
		},
	}
}

// get sets the service's answer to a script, and sends a request to a listener.
func (f *rateLimitFacts) get(t *testing.T, on, script string, reply *rlsv3.RateLimitResponse, headers ...string) rig.Reply {
	t.Helper()
	f.stub.onLimit(script, reply, nil)
	return rig.Send(t, "GET", "http://"+f.envoy.Listeners[on]+"/"+script, append(headers, "X-Script: "+script)...)
}

func (f *rateLimitFacts) overallDecides(t *testing.T) {
	over, fine := descriptorStatus(overLimit, "", 1, time.Second), descriptorStatus(okCode, "", 1, time.Second)
	wantIs(t, f.get(t, "strict", "ok-over", limitReply(okCode, over)), 200, "app")
	wantIs(t, f.get(t, "strict", "over-ok", limitReply(overLimit, fine)), 429, "")
	wantIs(t, f.get(t, "strict", "over-none", limitReply(overLimit)), 429, "")
	wantIs(t, f.get(t, "strict", "unknown", limitReply(rlsv3.RateLimitResponse_UNKNOWN, over)), 200, "app")
	wantIs(t, f.get(t, "strict", "empty", &rlsv3.RateLimitResponse{}), 200, "app")
}

func (f *rateLimitFacts) oddDescriptors(t *testing.T) {
	f.get(t, "odd", "odd", limitReply(okCode), "X-Empty: ")
	request := f.stub.last(t, "odd").limit
	var got []string
	for _, d := range request.GetDescriptors() {
		var text strings.Builder
		for _, e := range d.GetEntries() {
			text.WriteString(e.GetKey() + "=" + e.GetValue() + ";")
		}
		got = append(got, text.String())
	}
	if want := "script=odd;|k=a;|k=a;|empty=;||remote_address=127.0.0.1;|k=own;"; strings.Join(got, "|") != want {
		t.Errorf("Envoy sent %q; want %q", strings.Join(got, "|"), want)
	}
	if request.GetDomain() != "facts" || request.GetHitsAddend() != 0 {
		t.Errorf("domain %q, hits_addend %d; want facts, and 0 for the unset value", request.GetDomain(), request.GetHitsAddend())
	}
}

// descriptorOf returns the descriptor with the entry k=value.
func descriptorOf(r *rlsv3.RateLimitRequest, value string) *commonv3.RateLimitDescriptor {
	for _, d := range r.GetDescriptors() {
		for _, e := range d.GetEntries() {
			if e.GetKey() == "k" && e.GetValue() == value {
				return d
			}
		}
	}
	return nil
}

func (f *rateLimitFacts) hits(t *testing.T) {
	f.get(t, "hits", "hits", limitReply(okCode))
	rig.WaitUntil(t, "Envoy asks again when the stream is done", func() bool { return len(f.stub.callsOf("hits")) == 2 })
	calls := f.stub.callsOf("hits")
	request, done := calls[0].limit, calls[1].limit
	if look := descriptorOf(request, "look"); look.GetHitsAddend() == nil || look.GetHitsAddend().GetValue() != 0 {
		t.Errorf("the read is %v; want hits_addend set to 0", look)
	}
	if three := descriptorOf(request, "three"); three.GetHitsAddend().GetValue() != 3 || three.GetIsNegativeHits() {
		t.Errorf("three hits are %v", three)
	}
	if back := descriptorOf(request, "back"); back.GetHitsAddend().GetValue() != 2 || !back.GetIsNegativeHits() {
		t.Errorf("the refund is %v; want 2 negative hits", back)
	}
	if descriptorOf(request, "done") != nil || len(done.GetDescriptors()) != 1 || descriptorOf(done, "done").GetHitsAddend().GetValue() != uint64(len("app")) {
		t.Errorf("before %v, when done %v; want one descriptor with the number of bytes sent, only after the response", request, done)
	}
}

func (f *rateLimitFacts) override(t *testing.T) {
	f.get(t, "odd", "override", limitReply(okCode))
	limit := descriptorOf(f.stub.last(t, "override").limit, "own").GetLimit()
	if limit.GetRequestsPerUnit() != 42 || limit.GetUnit().String() != "HOUR" {
		t.Errorf("the limit is %v; want 42 per hour", limit)
	}
}

func (f *rateLimitFacts) quotaHeaders(t *testing.T) {
	r := f.get(t, "strict", "quota", limitReply(okCode, descriptorStatus(okCode, "201", 10, 33*time.Second)))
	rig.WantHeader(t, r.Header, "X-Ratelimit-Limit", `10, 10;w=600;name="201"`)
	rig.WantHeader(t, r.Header, "X-Ratelimit-Remaining", "7")
	rig.WantHeader(t, r.Header, "X-Ratelimit-Reset", "33")
	broken := f.get(t, "strict", "quote", limitReply(okCode, descriptorStatus(okCode, `q"x`, 1, time.Second)))
	rig.WantHeader(t, broken.Header, "X-Ratelimit-Limit", `10, 10;w=60;name="q"x"`) // not a valid structured field
}

func (f *rateLimitFacts) reset(t *testing.T) {
	r := f.get(t, "strict", "reset", limitReply(overLimit, descriptorStatus(overLimit, "", 1, 1900*time.Millisecond)))
	wantIs(t, r, 429, "")
	rig.WantHeader(t, r.Header, "X-Ratelimit-Reset", "1")
	rig.WantHeader(t, r.Header, "Retry-After", "1") // a client that retries then is refused again
}

func (f *rateLimitFacts) doubledHeaders(t *testing.T) {
	reply := limitReply(overLimit, descriptorStatus(overLimit, "", 1, 9*time.Second))
	reply.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "X-RateLimit-Limit", Value: "ours"}, {Key: "X-Ours", Value: "1"}, {Key: "Retry-After", Value: "77"}}
	r := f.get(t, "strict", "doubled", reply)
	rig.WantHeader(t, r.Header, "X-Ours", "1")
	rig.WantHeader(t, r.Header, "Retry-After", "77")
	rig.WantHeader(t, r.Header, "X-Ratelimit-Limit", "ours", "10, 10;w=60")
}

func (f *rateLimitFacts) rawBody(t *testing.T) {
	reply := limitReply(overLimit, descriptorStatus(overLimit, "", 1, time.Second))
	reply.RawBody = []byte(`{"status":429}`)
	reply.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "Content-Type", Value: "application/problem+json"}}
	r := f.get(t, "strict", "body", reply)
	wantIs(t, r, 429, `{"status":429}`)
	rig.WantHeader(t, r.Header, "Content-Type", "application/problem+json")
	reply.OverallCode = okCode
	wantIs(t, f.get(t, "strict", "body-ok", reply), 200, "app")
}

func (f *rateLimitFacts) defaultDeadline(t *testing.T) {
	rig.WaitUntil(t, "a call comes before its deadline", func() bool {
		f.get(t, "default", "deadline", limitReply(okCode))
		return len(f.stub.callsOf("deadline")) > 0
	})
	if c := f.stub.last(t, "deadline"); !c.hasDeadline || c.left > 20*time.Millisecond {
		t.Errorf("the call had %v left, and a deadline: %t; want at most 20 ms", c.left, c.hasDeadline)
	}
}

func (f *rateLimitFacts) dynamicMetadata(t *testing.T) {
	for script, code := range map[string]rlsv3.RateLimitResponse_Code{"metadata-ok": okCode, "metadata-over": overLimit} {
		reply := limitReply(code)
		reply.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"rule": structpb.NewNumberValue(501)}}
		f.get(t, "strict", script, reply)
		wantLogged(t, f.envoy, "ACCESS /"+script, `"rule":501`)
	}
}

func (f *rateLimitFacts) failureMode(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.ResourceExhausted, codes.Unavailable} {
		script := "error-" + code.String()
		f.stub.onLimit(script, nil, status.Error(code, "no"))
		for on, want := range map[string]int{"open": 200, "strict": 503} {
			if r := rig.Send(t, "GET", "http://"+f.envoy.Listeners[on]+"/", "X-Script: "+script); r.Status != want {
				t.Errorf("%v, %s: %d; want %d", code, on, r.Status, want)
			}
		}
	}
}

func (f *rateLimitFacts) grpcClient(t *testing.T) {
	reply := limitReply(overLimit, descriptorStatus(overLimit, "", 1, time.Second))
	reply.RawBody = []byte("slow")
	r := f.get(t, "strict", "grpc", reply, "Content-Type: application/grpc")
	if r.Status != 200 {
		t.Errorf("a gRPC client got %d; want 200", r.Status)
	}
	rig.WantHeader(t, r.Header, "Grpc-Status", "14")
	rig.WantHeader(t, r.Header, "Grpc-Message", "slow")
}
