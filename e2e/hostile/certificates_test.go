package hostile_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// caller is a certificate by which somebody calls a server that requires one of its authority.
type caller struct {
	name      string
	pair      *certs.Pair // nil for none
	cert, key string      // its files
}

// strangers returns callers without a certificate of an authority that is in force.
func strangers(h *rig.Fixture, clients, servers rig.Authority) []caller {
	h.Helper()
	foreign := h.Authority("foreign-ca")
	// Another authority that calls itself the same.
	impostor := rig.Must(certs.NewAuthority("client-ca"))(h.T)
	list := []caller{{name: "nobody"}}
	for name, pair := range map[string]certs.Pair{
		"foreign":     rig.Must(foreign.Sign("gateway"))(h.T),
		"of-servers":  rig.Must(servers.Sign("gateway"))(h.T),
		"of-impostor": rig.Must(impostor.Sign("gateway"))(h.T),
		"expired":     rig.Must(clients.SignUntil("gateway", time.Now().Add(-time.Minute)))(h.T),
	} {
		list = append(list, caller{name, &pair, h.File(name+".crt", string(pair.Cert)), h.File(name+".key", string(pair.Key))})
	}
	return list
}

// of returns the TLS configuration of the caller, who sends its certificate whatever the server
// asks for.
func (c *caller) of(h *rig.Fixture, servers rig.Authority, name string) *tls.Config {
	h.Helper()
	config := rig.Trusting(h.T, servers)
	config.ServerName = name
	if c.pair != nil {
		own := rig.Must(tls.X509KeyPair(c.pair.Cert, c.pair.Key))(h.T)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return config
}

// speaks reports whether a server of gRPC sends its settings to a caller.
func speaks(ctx context.Context, address string, config *tls.Config) bool {
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, make([]byte, 9))
	return err == nil
}

// request sends a request over a connection of its own, and returns the status, 0 without an
// answer.
func request(ctx context.Context, url string, config *tls.Config, headers ...string) int {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	r.Host = "shop.example"
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// forgedIdentities are headers by which programs pass on the certificate of a client.
var forgedIdentities = []string{
	`X-Forwarded-Client-Cert: By=spiffe://shop/gateway;Hash=00;Subject="CN=gateway";URI=spiffe://shop/gateway`,
	"Client-Cert: :MIIB:", "X-SSL-Client-Verify: SUCCESS", "X-SSL-Client-CN: gateway", "X-User-Id: bob",
}

// securedGateways starts a gateway for koalagate over mutual TLS, with fields for the files of
// the authority, the certificate and its key. Its page has the same lines.
var securedGateways = map[string]func(h *rig.Fixture, app string, k *e2e.Koalagate, ca string, c caller) (*e2e.Gateway, error){
	"nginx": func(h *rig.Fixture, app string, k *e2e.Koalagate, ca string, c caller) (*e2e.Gateway, error) {
		lines := "proxy_pass https://koalagate/v1/auth-request;\nproxy_ssl_trusted_certificate " + ca + ";\nproxy_ssl_verify on;\nproxy_ssl_name koalagate;\n"
		if c.pair != nil {
			lines += fmt.Sprintf("proxy_ssl_certificate %s;\nproxy_ssl_certificate_key %s;\n", c.cert, c.key)
		}
		return h.Stage.NginxSample("nginx/nginx.conf", app, []string{k.HTTP}, rig.NginxFailsClosed, [2]string{"proxy_pass http://koalagate/v1/auth-request;", lines})
	},
	"caddy": func(h *rig.Fixture, app string, k *e2e.Koalagate, ca string, c caller) (*e2e.Gateway, error) {
		lines := "transport http {\ntls_trusted_ca_certs " + ca + "\ntls_server_name koalagate\n"
		if c.pair != nil {
			lines += "tls_client_auth " + c.cert + " " + c.key + "\n"
		}
		return h.Stage.Caddy(app, []string{k.HTTP}, rig.CaddyFailsClosed, [2]string{"transport http {\n", lines})
	},
	"haproxy": func(h *rig.Fixture, app string, k *e2e.Koalagate, ca string, c caller) (*e2e.Gateway, error) {
		server := k.HTTP + " ssl verify required ca-file " + ca + " verifyhost koalagate"
		if c.pair != nil {
			server += " crt " + h.File("haproxy-"+c.name+".pem", string(slices.Concat(c.pair.Cert, c.pair.Key)))
		}
		const closed = "http-request deny deny_status 503 if { var(txn.koala_failed) -m bool }\n"
		return h.Stage.HAProxy(app, []string{server}, [2]string{"#" + closed, closed})
	},
	"envoy": func(h *rig.Fixture, app string, k *e2e.Koalagate, ca string, c caller) (*e2e.Gateway, error) {
		own := ""
		if c.pair != nil {
			own = fmt.Sprintf("tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], ", c.cert, c.key)
		}
		const cluster, health = "  - name: koalagate\n    type: STATIC\n", "      grpc_health_check: {}\n"
		return h.Stage.EnvoySample("envoy/envoy.yaml",
			[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
			[2]string{"port_value: 8000 ", "port_value: " + rig.Port(app) + " "}, [2]string{"port_value: 9191 ", "port_value: " + rig.Port(k.GRPC) + " "},
			[2]string{health, health + "      tls_options: { alpn_protocols: [ h2 ] }\n"},
			[2]string{cluster, cluster + fmt.Sprintf(`    transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.UpstreamTlsContext, sni: koalagate, common_tls_context: { %svalidation_context: { trusted_ca: { filename: %q }, match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: koalagate } } ] } } } }`+"\n", rig.TypeURL, own, ca)})
	},
}

const blockedRules = `
[params]
uid : header X-User-Id else client-ip
[rules]
rule : [direct] [uid=blocked] []                         [result=2; return=101]
rule : [count]  [uid=+]       [time=3600; count=1000000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// Only callers with a certificate of grpc_tls_client_ca and http_tls_client_ca get answers at
// the doors: whatever the others claim in headers, nothing is counted. Behind gateways that
// have no such certificate, and in front of a server that is not koalagate although its
// certificate is of the same authority, nothing passes. The form with -long starts the gateways
// with each certificate.
func TestHostileCertificatesReachNoDoor(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	servers, clients := h.Authority("server-ca"), h.Authority("client-ca")
	cert, key := h.Sign(servers, "koalagate")
	k := h.Koalagate("--rules", h.File("rules.conf", blockedRules),
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-client-ca", clients.File,
		"--http-tls-cert", cert, "--http-tls-key", key, "--http-tls-client-ca", clients.File)
	pair := rig.Must(clients.Sign("gateway"))(t)
	known := caller{"known", &pair, h.File("known.crt", string(pair.Cert)), h.File("known.key", string(pair.Key))}
	check := "https://" + k.HTTP + "/v1/auth-request"
	headers := append([]string{"X-Original-Method: GET", "X-Original-URI: /", "X-Real-IP: 203.0.113.9"}, forgedIdentities...)
	all := append(strangers(h, clients, servers), known)
	for _, c := range all {
		config, want := c.of(h, servers, "koalagate"), 0
		if c.name == known.name {
			want = http.StatusOK
		}
		if got := request(t.Context(), check, config, headers...); got != want {
			t.Errorf("%s asks over HTTP: %d; want %d", c.name, got, want)
		}
		if got := speaks(t.Context(), k.GRPC, config); got != (want != 0) {
			t.Errorf("%s calls over gRPC: answered is %v", c.name, got)
		}
	}
	some := all
	if !*long {
		some = slices.DeleteFunc(slices.Clone(all), func(c caller) bool { return c.name != "expired" && c.name != known.name })
	}
	other := falseKoalagate(h, servers)
	for name, start := range securedGateways {
		for _, c := range some {
			app := h.App()
			g := rig.Must(start(h, app.Address, k, servers.File, c))(t)
			if c.name == known.name {
				rig.WaitUntil(t, name+" finds koalagate healthy", func() bool { return rig.Send(t, "GET", g.URL+"/a", "X-User-Id: ann").Status == http.StatusOK })
				before := app.Reached()
				if r := rig.Send(t, "GET", g.URL+"/a", "X-User-Id: blocked"); r.Status < 400 || app.Reached() != before {
					t.Errorf("%s, %s: %d for a user whom the rules refuse", name, c.name, r.Status)
				}
				continue
			}
			if r := rig.Send(t, "GET", g.URL+"/a", "X-User-Id: ann"); r.Status < 400 || app.Reached() != 0 {
				t.Errorf("%s, %s: %d, and %d requests reached the application; want none", name, c.name, r.Status, app.Reached())
			}
		}
		app := h.App()
		g := rig.Must(start(h, app.Address, other, servers.File, known))(t)
		if r := rig.Send(t, "GET", g.URL+"/a", "X-User-Id: ann"); r.Status < 400 || app.Reached() != 0 {
			t.Errorf("%s: %d, and %d requests reached the application by the word of another server; want none", name, r.Status, app.Reached())
		}
	}
}

// falseKoalagate starts a server that allows every check. Its certificate is of the authority of
// koalagate's, for another name.
func falseKoalagate(h *rig.Fixture, servers rig.Authority) *e2e.Koalagate {
	h.Helper()
	pair := rig.Must(servers.Sign("shop"))(h.T)
	own := rig.Must(tls.X509KeyPair(pair.Cert, pair.Key))(h.T)
	l := rig.Must((&net.ListenConfig{}).Listen(h.Context(), "tcp", "127.0.0.1:0"))(h.T)
	server := &http.Server{
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2", "http/1.1"}},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServeTLS(l, "", "") // returns ErrServerClosed
	}()
	h.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	address := l.Addr().String()
	return &e2e.Koalagate{HTTP: address, GRPC: address}
}

// The clients of a gateway that requires certificates are who their certificates say, whatever
// they claim in headers, and others get no answer: Envoy passes on the principal, and HAProxy the
// common name by the line of its sample.
func TestHostileClientsHaveTheNamesOfTheirCertificates(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	servers, clients := h.Authority("server-ca"), h.Authority("client-ca")
	cert, key := h.Sign(servers, "gateway")
	both := h.File("gateway.pem", string(slices.Concat(rig.Must(os.ReadFile(cert))(t), rig.Must(os.ReadFile(key))(t))))
	k := h.Koalagate("--rules", h.File("rules.conf", `
[params]
uid : header X-User-Id else client-ip
who : principal
[rules]
rule : [count] [who=+]           [time=3600; count=2] [result=2; return=201]
rule : [count] [uid=ann,eve]      [time=3600; count=2] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	ledger := rig.Must(h.Stage.Ledger())(t)
	port := freePort(t)
	rig.Must(h.Stage.HAProxy(ledger.Address, []string{k.HTTP},
		[2]string{"    bind 127.0.0.1:8080\n", fmt.Sprintf("    bind 127.0.0.1:8080\n    bind 127.0.0.1:%s ssl crt %s ca-file %s verify required\n", port, both, clients.File)},
		[2]string{"    http-request del-header X-User-Id\n", "    http-request del-header X-User-Id\n    http-request set-header X-User-Id %[ssl_c_s_dn(cn)]\n"}))(t)
	envoy := rig.Must(h.Stage.EnvoySample("envoy/envoy.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + rig.Port(ledger.Address) + " "}, [2]string{"port_value: 9191 ", "port_value: " + rig.Port(k.GRPC) + " "},
		[2]string{"    - filters:\n", fmt.Sprintf(`    - transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.DownstreamTlsContext, require_client_certificate: true, common_tls_context: { tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], validation_context: { trusted_ca: { filename: %q } } } } }`+"\n      filters:\n", rig.TypeURL, cert, key, clients.File)}))(t)
	for name, address := range map[string]string{"haproxy": "127.0.0.1:" + port, "envoy": envoy.Address} {
		for _, c := range strangers(h, clients, servers) {
			if got := request(t.Context(), "https://"+address+"/a", c.of(h, servers, "gateway"), forgedIdentities...); got != 0 && got != http.StatusBadRequest {
				t.Errorf("%s answers %s: %d; want no answer", name, c.name, got)
			}
		}
		for _, entry := range ledger.Take()[""] {
			if !exempt(entry.Target) { // the stage asks whether gateways answer
				t.Errorf("%s: %v reached the application without a certificate", name, entry)
			}
		}
		for _, user := range []string{"ann", "eve"} {
			pair := rig.Must(clients.Sign(user))(t)
			c := caller{name: user, pair: &pair}
			for i, line := range append([]string{"X-User-Id: eve", "Connection: close, X-User-Id"}, forgedIdentities...) {
				want := http.StatusOK
				if i >= 2 {
					want = http.StatusTooManyRequests
				}
				if got := request(t.Context(), "https://"+address+"/a", c.of(h, servers, "gateway"), line); got != want {
					t.Errorf("%s, request %d of %s with %s: %d; want %d", name, i+1, user, line, got, want)
				}
			}
			for _, entry := range ledger.Take()[""] {
				is := user
				if name == "envoy" {
					is = "" // which has no filter that sets it
				}
				if wrong := claimed(entry, is); wrong != "" {
					t.Errorf("%s, %s: %s", name, user, wrong)
				}
			}
		}
	}
}

// freePort returns a port of loopback that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l := rig.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return rig.Port(l.Addr().String())
}
