package e2e_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/koalagate/koalagate/e2e"
)

// healthChecked makes a cluster ask its endpoints for their health.
const healthChecked = `health_checks: [ { timeout: 1s, interval: 0.1s, no_traffic_interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {} } ]`

// How Envoy treats the service itself, and connections that are not HTTP:
// docs/gateways/facts.md.
func TestEnvoyFrontFacts(t *testing.T) {
	h := newHouse(t)
	s, ill := newStub(t), newStub(t) // both without a health service
	app := newMirror(t)
	tcp := newEcho(t)
	text := envoyConfig(app.Address,
		cluster("koalagate", s.Address, http2)+cluster("echo", tcp.address, "")+
			cluster("panics", ill.Address, http2+", "+healthChecked)+
			cluster("calm", ill.Address, http2+", "+healthChecked+", common_lb_config: { healthy_panic_threshold: { value: 0 } }"),
		listener{name: "http", filters: []string{extAuthz("5s", "")}},
		listener{name: "panics", filters: []string{askingCluster("panics")}},
		listener{name: "hasty", filters: []string{strings.Replace(extAuthz("5s", `status_on_error: { code: 503 }`), "timeout: 5s",
			`timeout: 5s, retry_policy: { retry_on: connect-failure, retry_back_off: { base_interval: 0.001s, max_interval: 0.1s } }`, 1)}},
		listener{name: "calm", filters: []string{askingCluster("calm")}},
	)
	g := must(h.stage.EnvoyWith(strings.Replace(text, "  clusters:\n", tcpListener+"  clusters:\n", 1)))(t)

	t.Run("GW-51 a worker keeps one connection", func(t *testing.T) {
		together(20, func(int) {
			if r, err := askFor("GET", g.URL+"/worker"); err != nil || r.status != 200 {
				t.Errorf("%d, %v", r.status, err)
			}
		})
		if n := s.connections.Load(); n > 2 {
			t.Errorf("twenty requests at once took %d connections; want one for each of the two workers", n)
		}
	})
	t.Run("GW-52 a checked cluster asks no unhealthy instance, unless it panics", func(t *testing.T) {
		wantStatus(t, 503, "GET", "http://"+g.Listeners["calm"]+"/calm")
		if calls := ill.heard("/calm"); len(calls) != 0 {
			t.Errorf("the service was asked %d times; want never", len(calls))
		}
		wantStatus(t, 200, "GET", "http://"+g.Listeners["panics"]+"/panics")
	})
	t.Run("GW-56 the back-off's maximum is the time of a try", func(t *testing.T) {
		s.onCheckDo("/hasty", func(ctx context.Context) { <-ctx.Done() })
		begin := time.Now()
		wantStatus(t, 503, "GET", "http://"+g.Listeners["hasty"]+"/hasty")
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("the call had %v; want 0.1 s, though the timeout is 5 s", took)
		}
	})
	t.Run("GW-53 a TCP check has no request", func(t *testing.T) {
		if got := talk(t, g.Listeners["tcp"], "hello"); got != "hello" {
			t.Errorf("the application said %q; want the echo", got)
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

// askingCluster is a filter that asks a cluster of this name.
func askingCluster(name string) string {
	return strings.Replace(extAuthz("5s", `status_on_error: { code: 503 }`), "cluster_name: koalagate", "cluster_name: "+name, 1)
}

// tcpListener asks ext_authz about connections that are not HTTP.
var tcpListener = fmt.Sprintf(`  - name: tcp
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - { name: envoy.filters.network.ext_authz, typed_config: { "@type": %sfilters.network.ext_authz.v3.ExtAuthz, stat_prefix: tcp, transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate }, timeout: 5s } } }
      - { name: envoy.filters.network.tcp_proxy, typed_config: { "@type": %sfilters.network.tcp_proxy.v3.TcpProxy, stat_prefix: tcp, cluster: echo } }
`, typeURL, typeURL)

// echo is an application that is not HTTP: it says what it hears.
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

// talk says something over a connection, and returns what comes back of it.
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
		return "" // it was closed
	}
	heard := make([]byte, len(text))
	n, _ := io.ReadFull(conn, heard) // what is missing was not said
	return string(heard[:n])
}

// The sample for TCP answers as its comments say.
func TestEnvoyTCPSample(t *testing.T) {
	h := newHouse(t)
	k := h.koalagate("--rules", h.file("rules.conf", `
[rules]
rule : [count] [door=extauthz; ip=127.0.0.0/8]         [time=3600; count=2] [result=2; return=101]
rule : [count] [domain=connections; remote_address=+] [time=3600; count=4] [result=2; return=102]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	tcp := newEcho(t)
	g := must(h.stage.EnvoySample("envoy/envoy-tcp.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + port(tcp.address) + " "},
		[2]string{"port_value: 9191 ", "port_value: " + port(k.GRPC) + " "}))(t)
	t.Run("GW-55 connections are counted at both filters", func(t *testing.T) {
		for i, want := range []string{"hello", "hello", "", ""} {
			if got := talk(t, g.Listeners["tcp"], "hello"); got != want {
				t.Errorf("connection %d: %q; want %q", i+1, got, want)
			}
		}
		connection := descriptors("remote_address=127.0.0.1")
		connection.Domain = "connections"
		r := must(shouldRateLimit(rateLimiter(t, k), connection))(t)
		if r.OverallCode != overLimit {
			t.Errorf("the rate limit service says %v; want its four connections counted", r)
		}
	})
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, g.Listeners["tcp"], "hello"); got != "" {
		t.Errorf("without koalagate the client got %q; want its connection closed", got)
	}
}

// Two instances that share Redis share a limit, whichever Envoy asks.
func TestEnvoyOverTwoInstances(t *testing.T) {
	h := newHouse(t)
	instances := h.pair(h.file("rules.conf", limitedTo(5)))
	app := h.app()
	g := h.envoy(app, instances...)
	t.Run("GW-71 of twelve requests over two instances five pass", func(t *testing.T) {
		var passed atomic.Int64
		together(12, func(int) {
			if r, err := askFor("POST", g.URL+"/api/comments", "X-User-Id: ann"); err == nil && r.status == 200 {
				passed.Add(1)
			}
		})
		if passed.Load() != 5 || app.Reached() != 5 {
			t.Errorf("%d passed and %d reached the application; want 5", passed.Load(), app.Reached())
		}
	})
}

// A koalagate that does not answer, or is gone, is what the filter's failure
// mode says: nobody waits longer than its timeout.
func TestEnvoyWithoutAnswer(t *testing.T) {
	h := newHouse(t)
	k := h.koalagate("--rules", h.file("rules.conf", limitedTo(100)))
	limits := `[ { actions: [ { remote_address: {} } ] } ]`
	g := must(h.stage.EnvoyWith(envoyConfig(newMirror(t).Address, cluster("koalagate", k.GRPC, http2)+cluster("service", k.HTTP, ""),
		listener{name: "authz-closed", filters: []string{extAuthz("0.3s", `status_on_error: { code: 503 }`)}},
		listener{name: "authz-open", filters: []string{extAuthz("0.3s", `failure_mode_allow: true`)}},
		listener{name: "limit-closed", filters: []string{rateLimit("0.3s", `failure_mode_deny: true, status_on_error: { code: 503 }`)}, rateLimit: limits},
		listener{name: "limit-open", filters: []string{rateLimit("0.3s", "")}, rateLimit: limits},
		listener{name: "web-closed", filters: []string{httpAuthz("status_on_error: { code: 503 }")}},
		listener{name: "web-open", filters: []string{httpAuthz("failure_mode_allow: true")}},
	)))(t)
	want := func(t *testing.T, closed int) {
		t.Helper()
		for on, address := range g.Listeners {
			status := 200
			if strings.HasSuffix(on, "closed") {
				status = closed
			}
			begin := time.Now()
			if r := ask(t, "GET", "http://"+address+"/", "X-User-Id: ann"); r.status != status {
				t.Errorf("%s: %d; want %d", on, r.status, status)
			}
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("%s: the answer took %v; want Envoy not to wait beyond 0.3 s", on, took)
			}
		}
	}
	until(t, "koalagate answers Envoy in time", func() bool {
		return ask(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").status == 200
	})
	t.Run("GW-72 a slow koalagate fails as configured", func(t *testing.T) {
		signal(t, k, syscall.SIGSTOP)
		want(t, 503)
		signal(t, k, syscall.SIGCONT)
		until(t, "it answers again", func() bool {
			return ask(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").status == 200
		})
	})
	t.Run("GW-73 a dead koalagate fails as configured", func(t *testing.T) {
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		want(t, 503)
	})
}

func signal(t *testing.T, k *e2e.Koalagate, s os.Signal) {
	t.Helper()
	if err := k.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// httpAuthz is the filter that asks koalagate over HTTP.
func httpAuthz(more string) string {
	filter := strings.Replace(extAuthzHTTP(more+`, allowed_headers: { patterns: [ { exact: x-forwarded-for } ] }`, ""), "path_prefix: /auth", "path_prefix: /v1/ext-authz", 1)
	return strings.Replace(filter, "timeout: 5s", "timeout: 0.3s", 1)
}

// load sends requests from several callers until stop is called, and fails the
// test for each that is not answered with 200.
func load(t *testing.T, url string) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if r, err := askFor("POST", url, "X-User-Id: ann"); err != nil || r.status != http.StatusOK {
					t.Errorf("under load: %d %s, %v; want 200", r.status, r.body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	stopped := false
	stop = func() int64 {
		if !stopped {
			stopped = true
			cancel()
			callers.Wait()
		}
		return answered.Load()
	}
	t.Cleanup(func() { stop() })
	return stop
}

// mutualCluster is a cluster that proves itself to koalagate, and asks it to.
func mutualCluster(address, more, ca, cert, key string) string {
	own := ""
	if cert != "" {
		own = fmt.Sprintf(`tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], `, cert, key)
	}
	return cluster("koalagate", address, http2+optional("", more)+fmt.Sprintf(`, transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.UpstreamTlsContext, sni: koalagate, common_tls_context: { %svalidation_context: { trusted_ca: { filename: %q }, match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: koalagate } } ] } } } }`,
		typeURL, own, ca))
}

// Both sides prove themselves, and koalagate's certificate changes under load.
func TestEnvoyOverMutualTLS(t *testing.T) {
	h := newHouse(t)
	servers, clients := h.authority("server-ca"), h.authority("client-ca")
	cert, key := h.sign(servers, "koalagate")
	ownCert, ownKey := h.sign(clients, "envoy")
	// The least age there is: connections end and begin all the time.
	env := append([]string{"KOALAGATE_GRPC_MAX_CONNECTION_AGE=1s"}, unhurried...)
	k := must(h.stage.Koalagate(binary, env, "--rules", h.file("rules.conf", limitedTo(1_000_000)),
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-client-ca", clients.file))(t)
	app := newMirror(t)
	filters := []string{extAuthz("5s", `status_on_error: { code: 503 }`)}
	start := func(ca, cert, key string) *e2e.Gateway {
		return must(h.stage.EnvoyWith(envoyConfig(app.Address, mutualCluster(k.GRPC, "", ca, cert, key), listener{name: "http", filters: filters})))(t)
	}
	t.Run("GW-81 a caller without a certificate is turned away", func(t *testing.T) {
		wantStatus(t, 503, "GET", start(servers.file, "", "").URL+"/none")
		strangerCert, strangerKey := h.sign(servers, "stranger")
		wantStatus(t, 503, "GET", start(servers.file, strangerCert, strangerKey).URL+"/stranger")
	})
	t.Run("GW-82 no call is lost when certificates change", func(t *testing.T) {
		g := start(servers.file, ownCert, ownKey)
		wantStatus(t, 200, "GET", g.URL+"/known")
		stop := load(t, g.URL+"/api/comments")
		config := trusting(t, servers, must(clients.Sign("test"))(t))
		before := serial(t, k.GRPC, config)
		for range 5 {
			h.sign(servers, "koalagate") // over the files in use, one after the other
			time.Sleep(400 * time.Millisecond)
		}
		if n := stop(); n < 10 {
			t.Errorf("%d requests were answered; want a load", n)
		}
		if serial(t, k.GRPC, config) == before {
			t.Error("a new connection still sees the first certificate")
		}
	})
}

// serial is the number of the certificate that a new connection gets to see.
func serial(t *testing.T, address string, config *tls.Config) string {
	t.Helper()
	config = config.Clone()
	config.ServerName, config.NextProtos = "koalagate", []string{"h2"}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// One instance after the other goes, with both filters asking.
func TestEnvoyWhileInstancesGo(t *testing.T) {
	h := newHouse(t)
	rules, redis := h.file("rules.conf", limitedTo(1_000_000)), h.redis().URL()
	start := func() *e2e.Koalagate {
		return must(h.stage.Koalagate(binary, unhurried[:1], "--rules", rules, "--redis", redis))(t)
	}
	first, second, third, staying := start(), start(), start(), start()
	g := h.envoy(h.app(), first, second, third, staying)
	t.Run("GW-83 no call is lost while instances drain", func(t *testing.T) {
		stop := load(t, g.URL+"/api/comments")
		for _, going := range []*e2e.Koalagate{first, second} {
			signal(t, going, syscall.SIGTERM)
			if !going.Ended(10 * time.Second) {
				t.Error("it still runs 10 s after SIGTERM")
			}
		}
		if n := stop(); n < 10 {
			t.Errorf("%d requests were answered; want a load", n)
		}
	})
	t.Run("GW-84 what could not be sent goes to another instance", func(t *testing.T) {
		if err := third.Kill(); err != nil {
			t.Fatal(err)
		}
		for range 10 { // before a health check may have noticed
			wantStatus(t, 200, "POST", g.URL+"/api/comments", "X-User-Id: ann")
		}
	})
}
