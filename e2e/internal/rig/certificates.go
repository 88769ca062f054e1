package rig

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/koalagate/koalagate/e2e/certs"
)

// Authority is a certificate authority of the fixture, with its certificate in a
// file.
type Authority struct {
	*certs.Authority
	File string
}

// Authority returns a new authority, whose certificate is in a file of the fixture.
func (h *Fixture) Authority(name string) Authority {
	h.Helper()
	a := Must(certs.NewAuthority(name))(h.T)
	return Authority{a, h.File(name+".crt", string(a.Cert))}
}

// Sign writes a new certificate and its key to two files.
func (h *Fixture) Sign(a Authority, name string) (cert, key string) {
	h.Helper()
	p := Must(a.Sign(name))(h.T)
	return h.File(name+".crt", string(p.Cert)), h.File(name+".key", string(p.Key))
}

// Trusting returns a client's TLS configuration that trusts an authority.
func Trusting(t *testing.T, a Authority, own ...certs.Pair) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(a.Cert)
	for _, p := range own {
		config.Certificates = append(config.Certificates, Must(tls.X509KeyPair(p.Cert, p.Key))(t))
	}
	return config
}
