package probe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles names the files and the server name of a TLS connection. The zero
// value uses the system's authorities and no client certificate.
type TLSFiles struct {
	CA, Cert, Key string // PEM files; Cert and Key belong together
	ServerName    string // if it differs from the host in the URL
}

// Config returns the configuration for a URL of the given scheme, and nil for
// schemes without TLS. The error names the flags of `koalagate probe`.
func (f TLSFiles) Config(scheme string) (*tls.Config, error) {
	if scheme != "https" && scheme != "grpcs" {
		if f != (TLSFiles{}) {
			return nil, errors.New("--ca, --cert, --key and --server-name require https:// or grpcs://")
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: no PEM certificate in %s", f.CA)
		}
	}
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return nil, errors.New("--cert and --key require each other")
	case f.Cert != "":
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert %s with --key %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
