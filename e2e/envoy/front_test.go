package envoy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// healthChecked makes a cluster check the health of its endpoints.
const healthChecked = `health_checks: [ { timeout: 1s, interval: 0.1s, no_traffic_interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {} } ]`

// How Envoy treats the service itself, and connections that are not HTTP:
// docs/gateways/facts.md.
func TestEnvoyFrontFacts(t *testing.T) {
	h := rig.NewFixture(t)
	s, ill := newStub(t), newStub(t) // both without a health service
	app := newMirror(t)
	tcp := newEcho(t)
	text := rig.EnvoyConfig(app.Address,
		rig.Cluster("koalagate", s.Address, rig.HTTP2)+rig.Cluster("echo", tcp.address, "")+
			rig.Cluster("panics", ill.Address, rig.HTTP2+", "+healthChecked)+
			rig.Cluster("calm", ill.Address, rig.HTTP2+", "+healthChecked+", common_lb_config: { healthy_panic_threshold: { value: 0 } }"),
		rig.Listener{Name: "http", Filters: []string{extAuthz(rig.Ample, "")}},
		rig.Listener{Name: "panics", Filters: []string{askingCluster("panics")}},
		rig.Listener{Name: "hasty", Filters: []string{strings.Replace(extAuthz(rig.Ample, `status_on_error: { code: 503 }`), "timeout: "+rig.Ample,
			`timeout: 15s, retry_policy: { retry_on: connect-failure, retry_back_off: { base_interval: 0.001s, max_interval: 0.1s } }`, 1)}},
		rig.Listener{Name: "calm", Filters: []string{askingCluster("calm")}},
	)
	g := rig.Must(h.Stage.EnvoyWith(strings.Replace(text, "  clusters:\n", tcpListener+"  clusters:\n", 1)))(t)

	t.Run("GW-51 a worker keeps one connection", func(t *testing.T) {
		rig.Concurrently(20, func(int) {
			if r, err := rig.TrySend("GET", g.URL+"/worker"); err != nil || r.Status != 200 {
				t.Errorf("%d, %v", r.Status, err)
			}
		})
		if n := s.connections.Load(); n > 2 {
			t.Errorf("twenty concurrent requests took %d connections; want one for each of the two workers", n)
		}
	})
	t.Run("GW-52 a checked cluster calls no unhealthy instance, unless it panics", func(t *testing.T) {
		rig.WantStatus(t, 503, "GET", "http://"+g.Listeners["calm"]+"/calm")
		if calls := ill.callsOf("/calm"); len(calls) != 0 {
			t.Errorf("the service got %d calls; want none", len(calls))
		}
		rig.WantStatus(t, 200, "GET", "http://"+g.Listeners["panics"]+"/panics")
	})
	t.Run("GW-56 the back-off's maximum is the time of a try", func(t *testing.T) {
		s.onCheckDo("/hasty", func(ctx context.Context) { <-ctx.Done() })
		begin := time.Now()
		rig.WantStatus(t, 503, "GET", "http://"+g.Listeners["hasty"]+"/hasty")
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the call had %v; want 0.1 s, though the timeout is 15 s", took)
		}
	})
	t.Run("GW-53 a TCP check has no request", func(t *testing.T) {
		if got := talk(t, g.Listeners["tcp"], "hello"); got != "hello" {
			t.Errorf("the application answered %q; want the echo", got)
		}
		check := s.last(t, "").check.GetAttributes()
		if check.GetRequest() != nil || check.GetSource().GetAddress().GetSocketAddress().GetAddress() != "127.0.0.1" {
			t.Errorf("the check is %v; want the peer, and no request", check)
		}
	})
	t.Run("GW-54 a refused connection is closed", func(t *testing.T) {
		s.onCheck("", checkReply(codes.PermissionDenied, denied(429, "slow")), nil)
		if got := talk(t, g.Listeners["tcp"], "hello"); got != "" {
			t.Errorf("the client got %q; want its connection closed, and no body", got)
		}
	})
}

// askingCluster returns a filter that calls the cluster with this name.
func askingCluster(name string) string {
	return strings.Replace(extAuthz(rig.Ample, `status_on_error: { code: 503 }`), "cluster_name: koalagate", "cluster_name: "+name, 1)
}

// tcpListener checks connections that are not HTTP by ext_authz.
var tcpListener = fmt.Sprintf(`  - name: tcp
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - { name: envoy.filters.network.ext_authz, typed_config: { "@type": %sfilters.network.ext_authz.v3.ExtAuthz, stat_prefix: tcp, transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate }, timeout: %s } } }
      - { name: envoy.filters.network.tcp_proxy, typed_config: { "@type": %sfilters.network.tcp_proxy.v3.TcpProxy, stat_prefix: tcp, cluster: echo } }
`, rig.TypeURL, rig.Ample, rig.TypeURL)

// echo is an application that does not speak HTTP and returns its input.
type echo struct{ address string }

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conversations sync.WaitGroup
	conversations.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conversations.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); conversations.Wait() })
	return &echo{l.Addr().String()}
}

// talk sends text over a connection, and returns as much of the answer.
func talk(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "" // the connection was closed
	}
	answer := make([]byte, len(text))
	n, _ := io.ReadFull(conn, answer) // a short answer is allowed
	return string(answer[:n])
}

// The TCP sample behaves as its comments say.
func TestEnvoyTCPSample(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[rules]
rule : [count] [door=extauthz; ip=127.0.0.0/8]         [time=3600; count=2] [result=2; return=101]
rule : [count] [domain=connections; remote_address=+] [time=3600; count=4] [result=2; return=102]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	tcp := newEcho(t)
	g := rig.Must(h.Stage.EnvoySample("envoy/envoy-tcp.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + rig.Port(tcp.address) + " "},
		[2]string{"port_value: 9191 ", "port_value: " + rig.Port(k.GRPC) + " "}))(t)
	t.Run("GW-55 connections are counted at both filters", func(t *testing.T) {
		for i, want := range []string{"hello", "hello", "", ""} {
			if got := talk(t, g.Listeners["tcp"], "hello"); got != want {
				t.Errorf("connection %d: %q; want %q", i+1, got, want)
			}
		}
		connection := rig.Descriptors("remote_address=127.0.0.1")
		connection.Domain = "connections"
		r := rig.Must(rig.ShouldRateLimit(rig.RateLimiter(t, k), connection))(t)
		if r.OverallCode != overLimit {
			t.Errorf("the rate limit service answered %v; want its four connections counted", r)
		}
	})
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, g.Listeners["tcp"], "hello"); got != "" {
		t.Errorf("without koalagate the client got %q; want its connection closed", got)
	}
}
