package service

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/koalagate/koalagate/internal/certificates"
	"github.com/koalagate/koalagate/internal/config"
)

// addressCertificates are the certificates of the three addresses; nil without TLS.
type addressCertificates struct{ grpc, http, admin *certificates.Certificates }

// loadCertificates loads the certificates of all addresses. Its error names the
// setting of the address.
func loadCertificates(c *config.Config, imported *Imported, logger *slog.Logger) (loaded addressCertificates, err error) {
	clientName := ""
	if imported != nil {
		clientName = imported.ClientName
	}
	for _, one := range []struct {
		key    string
		files  certificates.Files
		target **certificates.Certificates
	}{
		{"grpc_addr", certificates.Files{Cert: c.GRPCTLSCert, Key: c.GRPCTLSKey, ClientCA: c.GRPCTLSClientCA, ClientName: clientName}, &loaded.grpc},
		{"http_addr", certificates.Files{Cert: c.HTTPTLSCert, Key: c.HTTPTLSKey, ClientCA: c.HTTPTLSClientCA}, &loaded.http},
		{"admin_addr", certificates.Files{Cert: c.AdminTLSCert, Key: c.AdminTLSKey, ClientCA: c.AdminTLSClientCA}, &loaded.admin},
	} {
		if one.files.Cert == "" {
			continue
		}
		if *one.target, err = certificates.Load(one.files, logger.With("setting", one.key)); err != nil {
			return loaded, fmt.Errorf("the TLS of %s: %w", one.key, err)
		}
	}
	return loaded, nil
}

// secure returns a listener whose connections use TLS, or the listener itself without
// certificates. It offers HTTP/1.1 only: the bounds of the HTTP server are meant for
// HTTP/1.1, and gateways use nothing else for their checks.
func secure(l net.Listener, own *certificates.Certificates) net.Listener {
	if own == nil {
		return l
	}
	return tls.NewListener(l, own.ServerConfig("http/1.1"))
}
