package ratelimit_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

const (
	ok        = rlsv3.RateLimitResponse_OK
	overLimit = rlsv3.RateLimitResponse_OVER_LIMIT
)

// clock is the time of the store. It starts at noon, half a day before the end of the
// day in UTC.
type clock struct{ ms int64 }

func newClock() *clock { return &clock{1_795_262_400_000} }

func (c *clock) now() int64 { return c.ms }

func (c *clock) pass(d time.Duration) { c.ms += d.Milliseconds() }

func (c *clock) store() *memory.Store { return memory.New(memory.Options{Clock: c.now}) }

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatalf("the rules have errors: %v", findings)
	}
	return set
}

// door is a running door and a client of it.
type door struct {
	rlsv3.RateLimitServiceClient
	t     testing.TB
	clock *clock
}

// open serves the door over an in-memory connection, with the rules in text and new
// counters.
func open(t testing.TB, text string, change func(*ratelimit.Options)) *door {
	t.Helper()
	d := &door{t: t, clock: newClock()}
	o := ratelimit.Options{Engine: engine.New(parse(t, text), wiring.CountIn(d.clock.store()))}
	if change != nil {
		change(&o)
	}
	server := envoy.NewServer(envoy.Options{})
	ratelimit.New(o).Register(server)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:door",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	d.RateLimitServiceClient = rlsv3.NewRateLimitServiceClient(conn)
	return d
}

func (d *door) call(request *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return d.ShouldRateLimit(ctx, request)
}

// ask calls the door about descriptors in JSON, in the domain lab.
func (d *door) ask(descriptors ...string) *rlsv3.RateLimitResponse {
	d.t.Helper()
	return d.askFor(`{"domain": "lab", "descriptors": [` + strings.Join(descriptors, ", ") + `]}`)
}

func (d *door) askFor(json string) *rlsv3.RateLimitResponse {
	d.t.Helper()
	r := request(d.t, json)
	reply, err := d.call(r)
	if err != nil {
		d.t.Fatalf("ShouldRateLimit: %v", err)
	}
	if fault := malformed(r, reply); fault != "" {
		d.t.Fatalf("%s: %v", fault, reply)
	}
	return reply
}

func request(t testing.TB, json string) *rlsv3.RateLimitRequest {
	t.Helper()
	r := new(rlsv3.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(json), r); err != nil {
		t.Fatalf("%v in %s", err, json)
	}
	return r
}

// codesOf returns the codes of the descriptors by their first letters.
func codesOf(reply *rlsv3.RateLimitResponse) string {
	letters := make([]byte, 0, len(reply.Statuses))
	for _, s := range reply.Statuses {
		letters = append(letters, "?OV"[s.Code]) // UNKNOWN, OK, OVER_LIMIT
	}
	return string(letters)
}

// malformed returns a fault by which Envoy would misinterpret a reply, "" without one.
func malformed(r *rlsv3.RateLimitRequest, reply *rlsv3.RateLimitResponse) string {
	if reply.GetOverallCode() != ok && reply.GetOverallCode() != overLimit {
		return "the overall code is unset, which Envoy takes for permission to pass"
	}
	if len(reply.Statuses) != len(r.Descriptors) {
		return "the number of statuses is not that of descriptors"
	}
	if hasUnknown(reply.ProtoReflect()) {
		return "fields that no caller knows"
	}
	refused := false
	for _, s := range reply.Statuses {
		refused = refused || s.Code == overLimit
		switch {
		case s.Code != ok && s.Code != overLimit:
			return "a status without a code"
		case s.CurrentLimit != nil && s.DurationUntilReset == nil:
			return "a limit without its reset"
		case s.CurrentLimit == nil && s.DurationUntilReset != nil && s.Code != overLimit:
			return "a reset without its limit, though the status refuses nothing"
		case s.CurrentLimit == nil && s.LimitRemaining != 0:
			return "a remainder without a limit"
		case s.CurrentLimit != nil && s.CurrentLimit.GetUnitMultiplier().GetValue() == 0:
			return "a limit without its multiplier"
		case s.CurrentLimit != nil && s.CurrentLimit.Unit == rlsv3.RateLimitResponse_RateLimit_UNKNOWN:
			return "a limit without its unit"
		case strings.Contains(s.CurrentLimit.GetName(), `"`):
			return "a quote in a limit's name"
		case s.DurationUntilReset.GetNanos() != 0 || s.DurationUntilReset.GetSeconds() < 0:
			return "a reset that is not a whole number of seconds"
		}
	}
	switch {
	case refused != (reply.OverallCode == overLimit):
		return "the overall code does not follow from the statuses"
	case refused == (len(reply.RawBody) == 0):
		return "a body without a refusal, or a refusal without a body"
	case reply.DynamicMetadata.GetFields()["verdict"] == nil:
		return "the dynamic metadata has no verdict"
	}
	for _, h := range reply.ResponseHeadersToAdd {
		if h.Key == "" || strings.ContainsAny(h.Key+h.Value, "\r\n\x00") {
			return "the header " + h.Key + " breaks the response"
		}
	}
	return ""
}

// hasUnknown reports whether a message, or a message in it, has an unknown field.
func hasUnknown(m protoreflect.Message) (found bool) {
	found = len(m.GetUnknown()) > 0
	look := func(v protoreflect.Value) { found = found || hasUnknown(v.Message()) }
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { look(v); return true })
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				look(v.List().Get(i))
			}
		default:
			look(v)
		}
		return true
	})
	return found
}
