package rig

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
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
)

// OneCounter counts all requests at every door in one counter, so that one query
// shows whether anything was counted.
const OneCounter = `
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

// HitsOf returns the hits counted by the rules of oneCounter.
func HitsOf(t *testing.T, k *e2e.Koalagate) string {
	t.Helper()
	of := func(query string) string {
		return WantStatus(t, http.StatusOK, "GET", "http://"+k.HTTP+"/rule/value?"+query).Body
	}
	return of("rule_no=201&any=1") + of("rule_no=202&domain=shop")
}

// HTTPCheck returns the check that Envoy would send for a path.
func HTTPCheck(path string, headers []string) *authv3.CheckRequest {
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

// CheckStatus returns the status that a client would get, 200 if the request is
// allowed.
func CheckStatus(t *testing.T, c authv3.AuthorizationClient, r *authv3.CheckRequest) int {
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

// SendCheck sends a check to an HTTP door, byte for byte as its gateways do.
func SendCheck(t *testing.T, address, door, path string, headers []string) int {
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

// RateLimiter returns a client of the rate limit service of an instance.
func RateLimiter(t *testing.T, k *e2e.Koalagate) rlsv3.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rlsv3.NewRateLimitServiceClient(conn)
}

// Descriptors returns a request with one descriptor per `key=value`.
func Descriptors(pairs ...string) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: "shop"}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}},
		})
	}
	return r
}

// ShouldRateLimit calls the rate limit service with a deadline.
func ShouldRateLimit(c rlsv3.RateLimitServiceClient, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.ShouldRateLimit(ctx, r)
}

// AskAs sends a request of a user, and returns its status; 0 if there is no answer.
func AskAs(c *http.Client, url, user string) int {
	r, err := http.NewRequest(http.MethodGet, url+"/a", http.NoBody)
	if err != nil {
		return 0
	}
	r.Header.Set("X-User-Id", user)
	resp, err := c.Do(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
