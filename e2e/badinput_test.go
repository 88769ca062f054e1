package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/e2e"
)

// oneCounter counts all requests at every door in one counter, so that one query
// shows whether anything was counted.
const oneCounter = `
[params]
other : gateway
[routes]
* / : any=1
[rules]
rule : [count] [any=1]       [time=3600; count=1000000] [result=2; return=201]
rule : [count] [domain=shop] [time=3600; count=1000000] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// hitsOf returns the hits counted by the rules of oneCounter.
func hitsOf(t *testing.T, k *e2e.Koalagate) string {
	t.Helper()
	of := func(query string) string {
		return wantStatus(t, http.StatusOK, "GET", "http://"+k.HTTP+"/rule/value?"+query).body
	}
	return of("rule_no=201&any=1") + of("rule_no=202&domain=shop")
}

// Invalid requests are refused in the way of each door, and neither pass nor count.
// Unusual but valid requests are decided.
func TestBadInputAtEveryDoor(t *testing.T) {
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", oneCounter))
	conn := must(grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	checks := authv3.NewAuthorizationClient(conn)
	limits := rlsv3.NewRateLimitServiceClient(conn)

	long := "X-Long: " + strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name    string
		path    string
		headers []string
		want    map[string]int // by door; "" for all other doors
	}{
		{"an ordinary path", "/a", nil, map[string]int{"": 200}},
		{"dot segments", "/../a/./b/..", nil, map[string]int{"": 200}},
		{"an encoded slash", "/a%2Fb", nil, map[string]int{"": 200}},
		{"overlong UTF-8", "/%c0%af/%e0%80%af", nil, map[string]int{"": 200}},
		{"no UTF-8", "/%ff%fe", nil, map[string]int{"": 200}},
		{"a NUL", "/a%00b", nil, map[string]int{"": 400, "auth-request": 403}},
		{"a broken escape", "/a%zz", nil, map[string]int{"": 400, "auth-request": 403}},
		{"a cut escape", "/a%2", nil, map[string]int{"": 400, "auth-request": 403}},
		{"100 kB of headers", "/a", []string{long}, map[string]int{"": 431, "extauthz": 200}},
	} {
		for _, door := range []string{"auth-request", "forward-auth", "accel", "ext-authz", "extauthz"} {
			before := hitsOf(t, k)
			var got int
			if door == "extauthz" {
				got = checkStatus(t, checks, httpCheck(c.path, c.headers))
			} else {
				got = sendCheck(t, k.HTTP, door, c.path, c.headers)
			}
			want, named := c.want[door]
			if !named {
				want = c.want[""]
			}
			if got != want {
				t.Errorf("%s at %s: %d; want %d", c.name, door, got, want)
			}
			if counted := hitsOf(t, k) != before; counted != (want == 200) {
				t.Errorf("%s at %s: counted: %v", c.name, door, counted)
			}
		}
	}

	t.Run("a check without http", func(t *testing.T) {
		for name, check := range map[string]*authv3.CheckRequest{"empty": {}, "no request": {Attributes: &authv3.AttributeContext{}}} {
			before := hitsOf(t, k)
			if got := checkStatus(t, checks, check); got != 200 || hitsOf(t, k) != before {
				t.Errorf("%s: %d, counted %s, before %s; want the status of entry 0, and no count", name, got, hitsOf(t, k), before)
			}
		}
	})
	t.Run("calls of the rate limit service", func(t *testing.T) {
		entry := &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}
		with := func(d *commonv3.RateLimitDescriptor) []*commonv3.RateLimitDescriptor {
			return []*commonv3.RateLimitDescriptor{entry, d}
		}
		override := func(unit typev3.RateLimitUnit, multiplier uint32) *commonv3.RateLimitDescriptor {
			return &commonv3.RateLimitDescriptor{Limit: &commonv3.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: 1, Unit: unit, UnitMultiplier: wrapperspb.UInt32(multiplier),
			}}
		}
		for name, r := range map[string]*rlsv3.RateLimitRequest{
			"no domain":                {Descriptors: with(entry)},
			"no descriptors":           {Domain: "shop"},
			"unit UNKNOWN":             {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_UNKNOWN, 1))},
			"an unknown unit":          {Domain: "shop", Descriptors: with(override(99, 1))},
			"a multiplier of 0":        {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_SECOND, 0))},
			"a window beyond 366 days": {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_YEAR, 2))},
			"the largest multiplier":   {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_YEAR, 1<<32-1))},
		} {
			before := hitsOf(t, k)
			_, err := shouldRateLimit(limits, r)
			if status.Code(err) != codes.InvalidArgument || hitsOf(t, k) != before {
				t.Errorf("%s: %v, counted %s, before %s; want InvalidArgument and no count", name, err, hitsOf(t, k), before)
			}
		}
		for name, r := range map[string]*rlsv3.RateLimitRequest{
			"hits of 2^32-1":           {Domain: "shop", HitsAddend: 1<<32 - 1, Descriptors: with(entry)},
			"a descriptor's hits":      {Domain: "shop", Descriptors: with(&commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1_000_000_000_000_001)})},
			"a descriptor's most hits": {Domain: "shop", Descriptors: with(&commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1<<64 - 1)})},
			"a refund of too many":     {Domain: "shop", Descriptors: with(&commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1 << 63), IsNegativeHits: true})},
		} {
			before := hitsOf(t, k)
			reply, err := shouldRateLimit(limits, r)
			if err != nil || reply.GetOverallCode() != rlsv3.RateLimitResponse_OVER_LIMIT || hitsOf(t, k) != before {
				t.Errorf("%s: %v, %v, counted %s, before %s; want OVER_LIMIT and no count", name, reply, err, hitsOf(t, k), before)
			}
		}
		before := hitsOf(t, k)
		odd, err := shouldRateLimit(limits, &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: []*commonv3.RateLimitDescriptor{{}, {}, entry, entry}})
		if err != nil || len(odd.GetStatuses()) != 4 || hitsOf(t, k) == before {
			t.Errorf("descriptors without entries, and duplicates: %v, %v; want four statuses", odd, err)
		}
	})
	if !readyz(t, k).Ready {
		t.Error("the service is no longer ready")
	}
}

// httpCheck returns the check that Envoy would send for a path.
func httpCheck(path string, headers []string) *authv3.CheckRequest {
	http := &authv3.AttributeContext_HttpRequest{Method: "GET", Path: path, Host: "shop.example", Headers: map[string]string{}}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		http.Headers[strings.ToLower(name)] = value
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "203.0.113.9"},
		}}},
		Request: &authv3.AttributeContext_Request{Http: http},
	}}
}

// checkStatus returns the status that a client would get, 200 if the request is
// allowed.
func checkStatus(t *testing.T, c authv3.AuthorizationClient, r *authv3.CheckRequest) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	answer, err := c.Check(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetStatus().GetCode() == 0 && answer.GetOkResponse() != nil {
		return http.StatusOK
	}
	return int(answer.GetDeniedResponse().GetStatus().GetCode())
}

// sendCheck sends a check to an HTTP door, byte for byte as its gateways do.
func sendCheck(t *testing.T, address, door, path string, headers []string) int {
	t.Helper()
	target := "/v1/" + door
	lines := []string{"Host: koalagate", "X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9"}
	switch door {
	case "forward-auth":
		lines = append(lines, "X-Forwarded-Method: GET", "X-Forwarded-Uri: "+path)
	case "ext-authz":
		target += path
	default:
		lines = append(lines, "X-Original-Method: GET", "X-Original-URI: "+path)
	}
	network := "tcp"
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		network, address = "unix", path
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The server may close the connection before it has read a header that is too
	// long, which makes the write fail; the answer arrives all the same.
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\n%s\r\n\r\n", target, strings.Join(append(lines, headers...), "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s, %s: %v", door, path, err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
