package envoy_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// mutualTLS returns the transport socket of a listener that requires client
// certificates of the authority `clients`.
func mutualTLS(h *rig.Fixture) string {
	h.Helper()
	server := h.Authority("server-ca")
	cert, key := h.Sign(server, "gateway")
	clients := h.Authority("client-ca")
	h.Authorities = map[string]rig.Authority{"server": server, "clients": clients}
	return fmt.Sprintf(`transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.DownstreamTlsContext, require_client_certificate: true, common_tls_context: { tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], validation_context: { trusted_ca: { filename: %q } } } } }`,
		rig.TypeURL, cert, key, clients.File)
}

func (f *extAuthzFacts) principal(t *testing.T, h *rig.Fixture) {
	for i, name := range []string{"ann.example", "spiffe://mesh.example/ns/shop/sa/ann"} {
		config := rig.Trusting(t, h.Authorities["server"], rig.Must(h.Authorities["clients"].Sign(name))(t))
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
	return rig.Cluster("koalagate", address, rig.HTTP2+rig.Optional("", more)+fmt.Sprintf(`, transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.UpstreamTlsContext, sni: koalagate, common_tls_context: { %svalidation_context: { trusted_ca: { filename: %q }, match_typed_subject_alt_names: [ { san_type: DNS, matcher: { exact: koalagate } } ] } } } }`,
		rig.TypeURL, own, ca))
}

// Both sides use certificates, and koalagate's certificate changes under load.
func TestEnvoyOverMutualTLS(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	servers, clients := h.Authority("server-ca"), h.Authority("client-ca")
	cert, key := h.Sign(servers, "koalagate")
	ownCert, ownKey := h.Sign(clients, "envoy")
	// The minimum age, so that connections are constantly replaced.
	env := append([]string{"KOALAGATE_GRPC_MAX_CONNECTION_AGE=1s"}, rig.RaceSettings...)
	k := rig.Must(h.Stage.Koalagate(rig.Binary, env, "--rules", h.File("rules.conf", rig.LimitedTo(1_000_000)),
		"--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-client-ca", clients.File))(t)
	app := newMirror(t)
	filters := []string{extAuthz(rig.Ample, `status_on_error: { code: 503 }`)}
	start := func(ca, cert, key string) *e2e.Gateway {
		return rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(app.Address, mutualCluster(k.GRPC, "", ca, cert, key), rig.Listener{Name: "http", Filters: filters})))(t)
	}
	t.Run("GW-81 a caller without a certificate is rejected", func(t *testing.T) {
		rig.WantStatus(t, 503, "GET", start(servers.File, "", "").URL+"/none")
		strangerCert, strangerKey := h.Sign(servers, "stranger")
		rig.WantStatus(t, 503, "GET", start(servers.File, strangerCert, strangerKey).URL+"/stranger")
	})
	t.Run("GW-82 no call is lost when certificates change", func(t *testing.T) {
		g := start(servers.File, ownCert, ownKey)
		rig.WantStatus(t, 200, "GET", g.URL+"/known")
		stop := rig.Load(t, g.URL+"/api/comments")
		config := rig.Trusting(t, servers, rig.Must(clients.Sign("test"))(t))
		before := serial(t, k.GRPC, config)
		for range 5 {
			h.Sign(servers, "koalagate") // overwrites the files in use, one after the other
			time.Sleep(400 * time.Millisecond)
			rig.WaitUntil(t, "a new connection sees another certificate", func() bool { return serial(t, k.GRPC, config) != before })
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
