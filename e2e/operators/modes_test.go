package operators_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e/internal/rig"
	"github.com/koalagate/koalagate/internal/doorname"
)

// refuseAll refuses every request at every door.
const refuseAll = `
[routes]
* / : any=1
[rules]
rule : [direct] [any=1]       [] [result=2; return=101]
rule : [direct] [domain=shop] [] [result=2; return=102]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// An instance that serves only Unix sockets: each door applies its mode, which
// changes at run time.
func TestModesOfEveryDoorOverUnixSockets(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	sockets := map[string]string{"grpc": h.Dir + "/grpc.sock", "http": h.Dir + "/http.sock", "admin": h.Dir + "/admin.sock"}
	k := rig.Must(h.Stage.Serve(rig.Binary, []string{"KOALAGATE_UNIX_SOCKET_MODE=0600"}, "--rules", h.File("rules.conf", refuseAll),
		"--grpc-addr", "unix:"+sockets["grpc"], "--http-addr", "unix:"+sockets["http"], "--admin-addr", "unix:"+sockets["admin"]))(t)
	k.Admin = "unix:" + sockets["admin"]
	over := func(name string) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", sockets[name])
		}}}
	}
	call := func(name, method, path, body string) (int, string) {
		r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+k.ChangeToken())
		resp, err := over(name).Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(text)
	}
	rig.WaitUntil(t, "it is ready", func() bool { status, _ := call("admin", "GET", "/readyz", ""); return status == http.StatusOK })
	for name, path := range sockets {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want a socket for its owner only", name, info, err)
		}
	}
	conn := rig.Must(grpc.NewClient("unix:"+sockets["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	k.GRPC = "unix:" + sockets["grpc"]
	passes := map[string]func() bool{
		doorname.ExtAuthz: func() bool {
			return rig.CheckStatus(t, authv3.NewAuthorizationClient(conn), rig.HTTPCheck("/a", nil)) == http.StatusOK
		},
		doorname.RateLimit: func() bool {
			r, err := rig.ShouldRateLimit(rig.RateLimiter(t, k), rig.Descriptors("k=v"))
			return err == nil && r.GetOverallCode().String() == "OK"
		},
		doorname.Quota: func() bool {
			stream, err := rlqsv3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stream.CloseSend() }()
			if err := stream.Send(&rlqsv3.RateLimitQuotaUsageReports{Domain: "shop", BucketQuotaUsages: []*rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage{{
				BucketId: &rlqsv3.BucketId{Bucket: map[string]string{"k": "v"}}, NumRequestsAllowed: 1,
			}}}); err != nil {
				t.Fatal(err)
			}
			got, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return got.GetBucketAction()[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetBlanketRule() == typev3.RateLimitStrategy_ALLOW_ALL
		},
		doorname.Koala: func() bool {
			_, body := call("http", "GET", "/rule/take?any=1", "")
			return strings.Contains(body, `"Err_no":0`)
		},
	}
	for _, door := range []string{doorname.AuthRequest, doorname.ForwardAuth, doorname.Accel, doorname.ExtAuthzWeb} {
		passes[door] = func() bool {
			return rig.SendCheck(t, "unix:"+sockets["http"], door, "/a", nil) == http.StatusOK
		}
	}
	for _, door := range doorname.Served() {
		for _, step := range []struct {
			mode   string
			passes bool
		}{{"enforce", false}, {"observe", true}, {"off", true}, {"enforce", false}} {
			status, text := call("admin", "POST", "/modes", `{"`+door+`":"`+step.mode+`"}`)
			if status != http.StatusOK {
				t.Fatalf("%s in mode %s: %d %s", door, step.mode, status, text)
			}
			if got := passes[door](); got != step.passes {
				t.Errorf("%s in mode %s: passes: %v", door, step.mode, got)
			}
		}
	}
}
