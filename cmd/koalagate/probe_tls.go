package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// probeTLS is what the command line says of TLS.
type probeTLS struct {
	ca, cert, key, serverName string

	config *tls.Config // nil where the URL speaks none
}

// read makes the configuration of a URL's scheme.
func (p *probeTLS) read(scheme string) error {
	if scheme != "https" && scheme != "grpcs" {
		if p.ca != "" || p.cert != "" || p.key != "" || p.serverName != "" {
			return errors.New("--ca, --cert, --key and --server-name are for https:// and grpcs:// alone")
		}
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.serverName}
	if p.ca != "" {
		text, err := os.ReadFile(p.ca)
		if err != nil {
			return fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("--ca: %s holds no certificate in PEM", p.ca)
		}
	}
	switch {
	case (p.cert == "") != (p.key == ""):
		return errors.New("--cert and --key go together")
	case p.cert != "":
		pair, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			return fmt.Errorf("--cert %s with --key %s: %w", p.cert, p.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	p.config = config
	return nil
}
