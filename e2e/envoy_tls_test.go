package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/koalagate/koalagate/e2e/certs"
)

// authority is a certificate authority of the house, its certificate in a
// file.
type authority struct {
	*certs.Authority
	file string
}

func (h *house) authority(name string) authority {
	h.Helper()
	a := must(certs.NewAuthority(name))(h.T)
	return authority{a, h.file(name+".crt", string(a.Cert))}
}

// sign puts a pair into two files.
func (h *house) sign(a authority, name string) (cert, key string) {
	h.Helper()
	p := must(a.Sign(name))(h.T)
	return h.file(name+".crt", string(p.Cert)), h.file(name+".key", string(p.Key))
}

// trusting is a client's side of TLS that trusts an authority.
func trusting(t *testing.T, a authority, own ...certs.Pair) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(a.Cert)
	for _, p := range own {
		config.Certificates = append(config.Certificates, must(tls.X509KeyPair(p.Cert, p.Key))(t))
	}
	return config
}

// mutualTLS is the transport socket of a listener that asks its clients for a
// certificate, of the authority `clients`.
func mutualTLS(h *house) string {
	h.Helper()
	server := h.authority("server-ca")
	cert, key := h.sign(server, "gateway")
	clients := h.authority("client-ca")
	h.authorities = map[string]authority{"server": server, "clients": clients}
	return fmt.Sprintf(`transport_socket: { name: tls, typed_config: { "@type": %stransport_sockets.tls.v3.DownstreamTlsContext, require_client_certificate: true, common_tls_context: { tls_certificates: [ { certificate_chain: { filename: %q }, private_key: { filename: %q } } ], validation_context: { trusted_ca: { filename: %q } } } } }`,
		typeURL, cert, key, clients.file)
}

// countingClient is a client that counts the connections that it opens.
func countingClient(opened *int) *http.Client {
	var d net.Dialer
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		*opened++
		return d.DialContext(ctx, network, address)
	}}}
}

func (f *extAuthzFacts) principal(t *testing.T, h *house) {
	own := must(h.authorities["clients"].Sign("ann.example"))(t)
	config := trusting(t, h.authorities["server"], own)
	config.ServerName = "gateway"
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	resp, err := c.Get("https://" + f.envoy.Listeners["tls"] + "/principal")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	got := f.stub.last(t, "/principal").check.GetAttributes()
	if got.GetSource().GetPrincipal() != "ann.example" || got.GetSource().GetCertificate() == "" || got.GetTlsSession().GetSni() != "gateway" {
		t.Errorf("source %v, TLS %v; want ann.example, her certificate, and the name of the server", got.GetSource(), got.GetTlsSession())
	}
}
