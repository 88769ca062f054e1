// Package certs creates certificates and authorities for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns a new authority with this name.
func NewAuthority(name string) (*Authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{}
	var err error
	if a.Pair, a.cert, a.key, err = mint(template, nil); err != nil {
		return nil, err
	}
	return a, nil
}

// Sign returns a certificate for a loopback server or a client with this name: a
// DNS name, or a URI such as spiffe://mesh.example/ann. It is valid for an hour.
func (a *Authority) Sign(name string) (Pair, error) {
	return a.SignUntil(name, time.Now().Add(time.Hour))
}

// SignUntil is like Sign, but the certificate expires at end, which may be in the
// past.
func (a *Authority) SignUntil(name string, end time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name, "localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if uri, err := url.Parse(name); err == nil && uri.Scheme != "" {
		template.DNSNames, template.URIs = []string{"localhost"}, []*url.URL{uri}
	}
	pair, _, _, err := mint(template, a)
	return pair, err
}

// mint creates a certificate from a template, self-signed without an issuer.
func mint(template *x509.Certificate, issuer *Authority) (Pair, *x509.Certificate, *ecdsa.PrivateKey, error) {
	fail := func(err error) (Pair, *x509.Certificate, *ecdsa.PrivateKey, error) {
		return Pair{}, nil, nil, fmt.Errorf("creating the certificate of %s: %w", template.Subject.CommonName, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return fail(err)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.NotBefore = template.NotAfter.Add(-24 * time.Hour)
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return fail(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, cert, key, nil
}
