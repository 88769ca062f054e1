package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/certs"
)

// authority is a certificate authority of the fixture, with its certificate in a
// file.
type authority struct {
	*certs.Authority
	file string
}

func (h *fixture) authority(name string) authority {
	h.Helper()
	a := must(certs.NewAuthority(name))(h.T)
	return authority{a, h.file(name+".crt", string(a.Cert))}
}

// sign writes a new certificate and its key to two files.
func (h *fixture) sign(a authority, name string) (cert, key string) {
	h.Helper()
	p := must(a.Sign(name))(h.T)
	return h.file(name+".crt", string(p.Cert)), h.file(name+".key", string(p.Key))
}

// trusting returns a client's TLS configuration that trusts an authority.
func trusting(t *testing.T, a authority, own ...certs.Pair) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(a.Cert)
	for _, p := range own {
		config.Certificates = append(config.Certificates, must(tls.X509KeyPair(p.Cert, p.Key))(t))
	}
	return config
}

// mutualTLS returns the transport socket of a listener that requires client
// certificates of the authority `clients`.
func mutualTLS(h *fixture) string {
	h.Helper()
	server := h.authority("server-ca")
	cert, key := h.sign(server, "gateway")
	clients := h.authority("client-ca")
	h.authorities = map[string]authority{"server": server, "clients": clients}
	return fmt.Sprintf(`transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.DownstreamTlsContext, require_client_certificate: true, common_tls_context: { tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], validation_context: { trusted_ca: { filename: %q } } } } }`,
		typeURL, cert, key, clients.file)
}

func (f *extAuthzFacts) principal(t *testing.T, h *fixture) {
	for i, name := range []string{"ann.example", "spiffe://mesh.example/ns/shop/sa/ann"} {
		config := trusting(t, h.authorities["server"], must(h.authorities["clients"].Sign(name))(t))
		config.ServerName = "gateway"
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		path := fmt.Sprintf("/principal/%d", i)
		resp, err := c.Get("https://" + f.envoy.Listeners["tls"] + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := f.stub.last(t, path).check.GetAttributes()
		if got.GetSource().GetPrincipal() != name || got.GetSource().GetCertificate() == "" || got.GetTlsSession().GetSni() != "gateway" {
			t.Errorf("source %v, TLS %v; want %s, its certificate, and the name of the server", got.GetSource(), got.GetTlsSession(), name)
		}
	}
}

// mutualCluster returns a cluster that uses mutual TLS with koalagate.
func mutualCluster(address, more, ca, cert, key string) string {
	own := ""
	if cert != "" {
		own = fmt.Sprintf(`tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], `, cert, key)
	}
	return cluster("koalagate", address, http2+optional("", more)+fmt.Sprintf(`, transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.UpstreamTlsContext, sni: koalagate, common_tls_context: { %svalidation_context: { trusted_ca: { filename: %q }, match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: koalagate } } ] } } } }`,
		typeURL, own, ca))
}

// Both sides use certificates, and koalagate's certificate changes under load.
func TestEnvoyOverMutualTLS(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	servers, clients := h.authority("server-ca"), h.authority("client-ca")
	cert, key := h.sign(servers, "koalagate")
	ownCert, ownKey := h.sign(clients, "envoy")
	// The minimum age, so that connections are constantly replaced.
	env := append([]string{"KOALAGATE_GRPC_MAX_CONNECTION_AGE=1s"}, raceSettings...)
	k := must(h.stage.Koalagate(binary, env, "--rules", h.file("rules.conf", limitedTo(1_000_000)),
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-client-ca", clients.file))(t)
	app := newMirror(t)
	filters := []string{extAuthz(ample, `status_on_error: { code: 503 }`)}
	start := func(ca, cert, key string) *e2e.Gateway {
		return must(h.stage.EnvoyWith(envoyConfig(app.Address, mutualCluster(k.GRPC, "", ca, cert, key), listener{name: "http", filters: filters})))(t)
	}
	t.Run("GW-81 a caller without a certificate is rejected", func(t *testing.T) {
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
			h.sign(servers, "koalagate") // overwrites the files in use, one after the other
			time.Sleep(400 * time.Millisecond)
			waitUntil(t, "a new connection sees another certificate", func() bool { return serial(t, k.GRPC, config) != before })
			before = serial(t, k.GRPC, config)
		}
		t.Logf("%d requests were answered", stop())
	})
}

// serial returns the serial number of the certificate that a new connection gets.
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
