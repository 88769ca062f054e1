// Package certificates loads the TLS certificates of listeners from PEM files, and
// reloads them when the files change.
package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are the paths of the PEM files for TLS.
type Files struct {
	// Cert is the certificate of the server, followed by intermediate certificates.
	Cert string
	// Key is the private key of the certificate.
	Key string
	// ClientCA holds the authorities that must have signed the certificates of
	// callers. "" requires no certificate of callers.
	ClientCA string
	// ClientName is a DNS name that the certificates of callers must have; "" for any.
	ClientName string
}

// Certificates are the certificates and keys of Files. The files are read at
// every handshake, so that a change applies to new connections and no open connection
// is lost, without watching files. A handshake costs more than reading three small
// files, and gateways reuse connections: an Envoy worker makes one per half hour.
//
// Invalid files, and files that are being replaced, change nothing. Certificates are
// safe for concurrent use.
type Certificates struct {
	files  Files
	logger *slog.Logger

	mu        sync.Mutex
	active    *tls.Config
	content   content // of the files that active was built from
	lastError string  // the error that was logged last, "" after a success
}

// Load reads the files for the first time. The error names the invalid
// file. A nil logger means slog.Default.
func Load(files Files, logger *slog.Logger) (*Certificates, error) {
	if logger == nil {
		logger = slog.Default()
	}
	c := &Certificates{files: files, logger: logger}
	if err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// NotAfter returns the time when the certificate expires. It reads the files again, as
// a handshake does.
func (c *Certificates) NotAfter() time.Time { return c.current().Certificates[0].Leaf.NotAfter }

// Ending is a connection that TLS runs over. After EndAt it reads nothing that arrives at the time
// or later.
type Ending interface{ EndAt(time.Time) }

// ServerConfig returns the configuration of a server that reloads the files at every
// handshake. The server offers the protocols by ALPN, such as http/1.1;
// without any it does not use ALPN. A connection that is Ending ends with the certificate of its
// caller.
func (c *Certificates) ServerConfig(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			config := c.current().Clone()
			config.NextProtos = protocols
			if conn, ends := hello.Conn.(Ending); ends && config.ClientCAs != nil {
				verify := config.VerifyConnection
				config.VerifyConnection = func(s tls.ConnectionState) error {
					conn.EndAt(validUntil(s.VerifiedChains))
					if verify == nil {
						return nil
					}
					return verify(s)
				}
			}
			return config, nil
		},
	}
}

// validUntil returns the time at which the last of some chains of certificates expires.
func validUntil(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, one := range chain[1:] {
			if one.NotAfter.Before(first) {
				first = one.NotAfter
			}
		}
		if first.After(end) {
			end = first
		}
	}
	return end
}

// current returns the configuration for a connection that begins now.
func (c *Certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	message := ""
	if err := c.reload(); err != nil {
		message = err.Error()
	}
	if message != "" && message != c.lastError {
		c.logger.Error("changed certificates are invalid; keeping the previous ones", "error", message)
	}
	c.lastError = message
	return c.active
}

// reload activates the content of the files if it has changed.
func (c *Certificates) reload() error {
	read, err := c.files.read()
	if err != nil {
		return err
	}
	if c.active != nil && read.equal(&c.content) {
		return nil
	}
	config, err := c.files.config(&read)
	if err != nil {
		return err
	}
	c.active, c.content = config, read
	c.log(config.Certificates[0].Leaf)
	return nil
}

// log logs the certificate that has become active.
func (c *Certificates) log(leaf *x509.Certificate) {
	log, message := c.logger.Info, "TLS certificate is active"
	if !leaf.NotAfter.After(time.Now()) {
		log, message = c.logger.Warn, "TLS certificate is active but has expired"
	}
	log(message, "file", c.files.Cert, "subject", leaf.Subject.String(), "not_after", leaf.NotAfter, "asks_callers", c.files.ClientCA != "")
}

// content is the content of the files.
type content struct{ cert, key, clientCA []byte }

func (c *content) equal(o *content) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key) && bytes.Equal(c.clientCA, o.clientCA)
}

func (f *Files) read() (c content, err error) {
	if c.cert, err = readPEM(f.Cert); err != nil {
		return c, fmt.Errorf("certificate: %w", err)
	}
	if c.key, err = readPEM(f.Key); err != nil {
		return c, fmt.Errorf("private key: %w", err)
	}
	if f.ClientCA == "" {
		return c, nil
	}
	if c.clientCA, err = readPEM(f.ClientCA); err != nil {
		return c, fmt.Errorf("authorities of callers: %w", err)
	}
	return c, nil
}

// config returns the TLS configuration that the content describes.
func (f *Files) config(c *content) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with private key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		// A ticket would admit a caller by the authorities of the time when it was issued.
		SessionTicketsDisabled: true,
	}
	if f.ClientCA != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(c.clientCA) {
			return nil, fmt.Errorf("authorities of callers: %s contains no certificate in PEM", f.ClientCA)
		}
		if f.ClientName != "" {
			config.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(f.ClientName) }
		}
	}
	return config, nil
}

// readPEM reads a file of at most 1 MiB. If the file is written to meanwhile, readPEM
// reads it again: the beginning of one certificate and the end of another of the same
// length would form a certificate with an invalid signature.
func readPEM(path string) ([]byte, error) {
	for range 5 {
		text, isWhole, err := readOnce(path)
		if isWhole || err != nil {
			return text, err
		}
	}
	return nil, fmt.Errorf("%s changes while it is being read", path)
}

// readOnce reads a file, and reports whether it stayed unchanged meanwhile. It rejects
// pipes and devices, which would block the handshake.
func readOnce(path string) (text []byte, isWhole bool, err error) {
	const maxBytes = 1 << 20
	before, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, false, err
	case !before.Mode().IsRegular():
		return nil, false, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path) //nolint:gosec // the path is the operator's own
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	if text, err = io.ReadAll(io.LimitReader(file, maxBytes+1)); err != nil {
		return nil, false, err
	}
	after, err := file.Stat()
	switch {
	case err != nil:
		return nil, false, err
	case !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) || before.Size() != after.Size():
		return nil, false, nil
	case len(text) == 0:
		return nil, false, errors.New(path + " is empty")
	case len(text) > maxBytes:
		return nil, false, fmt.Errorf("%s is larger than %d bytes", path, maxBytes)
	}
	return text, true, nil
}
