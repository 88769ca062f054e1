package envoy

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

// CertificateFiles are the PEM files of a front that speaks TLS.
type CertificateFiles struct {
	// Cert is the front's certificate, those that lead to its root behind it.
	Cert string
	// Key is the certificate's private key.
	Key string
	// ClientCA are the authorities that sign the certificates of callers;
	// others are turned away. Empty: callers need none.
	ClientCA string
}

// Certificates are what CertificateFiles hold. They are read again at every
// handshake, so that a change holds for the next connection and for none that
// is open: no call is lost, and no file is watched. A handshake costs more than
// reading three small files, and an Envoy worker makes one in half an hour.
//
// Faulty files, and files that are just being replaced, change nothing.
type Certificates struct {
	files  CertificateFiles
	logger *slog.Logger

	mu        sync.Mutex
	inForce   *tls.Config
	content   certificateContent // which inForce was made of
	complaint string             // that was logged last
}

// LoadCertificates reads the files for the first time. Its error names the
// file that does not serve.
func LoadCertificates(files CertificateFiles, logger *slog.Logger) (*Certificates, error) {
	if logger == nil {
		logger = slog.Default()
	}
	c := &Certificates{files: files, logger: logger}
	if err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// config is the configuration of a front that looks for changes at every
// handshake.
func (c *Certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
	}
}

// current is what holds for a connection that begins now.
func (c *Certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	complaint := ""
	if err := c.reload(); err != nil {
		complaint = err.Error()
	}
	if complaint != "" && complaint != c.complaint {
		c.logger.Error("the changed certificates do not serve; the former ones hold", "error", complaint)
	}
	c.complaint = complaint
	return c.inForce
}

// reload puts the files' content into force if it is another one.
func (c *Certificates) reload() error {
	content, err := c.files.read()
	if err != nil {
		return err
	}
	if c.inForce != nil && content.equal(&c.content) {
		return nil
	}
	config, err := c.files.config(&content)
	if err != nil {
		return err
	}
	c.inForce, c.content = config, content
	c.announce(config.Certificates[0].Leaf)
	return nil
}

func (c *Certificates) announce(leaf *x509.Certificate) {
	log, text := c.logger.Info, "a certificate is in force"
	if !leaf.NotAfter.After(time.Now()) {
		log, text = c.logger.Warn, "a certificate is in force that has expired"
	}
	log(text, "file", c.files.Cert, "subject", leaf.Subject.String(), "not_after", leaf.NotAfter, "asks_callers", c.files.ClientCA != "")
}

// certificateContent is what the files hold.
type certificateContent struct{ cert, key, clientCA []byte }

func (c *certificateContent) equal(o *certificateContent) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key) && bytes.Equal(c.clientCA, o.clientCA)
}

func (f *CertificateFiles) read() (c certificateContent, err error) {
	if c.cert, err = readPEM(f.Cert); err != nil {
		return c, fmt.Errorf("the certificate: %w", err)
	}
	if c.key, err = readPEM(f.Key); err != nil {
		return c, fmt.Errorf("the certificate's key: %w", err)
	}
	if f.ClientCA == "" {
		return c, nil
	}
	if c.clientCA, err = readPEM(f.ClientCA); err != nil {
		return c, fmt.Errorf("the callers' authorities: %w", err)
	}
	return c, nil
}

// config is what a connection gets to see of the content.
func (f *CertificateFiles) config(c *certificateContent) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s with the key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		// A ticket would admit a caller by what held when it was issued.
		SessionTicketsDisabled: true,
	}
	if f.ClientCA != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(c.clientCA) {
			return nil, fmt.Errorf("the callers' authorities: %s holds no certificate in PEM", f.ClientCA)
		}
	}
	return config, nil
}

// readPEM reads a file of a sensible size. One that is written to meanwhile is
// read again: the beginning of one certificate and the end of the next, of one
// length, would be a certificate with a broken signature.
func readPEM(path string) ([]byte, error) {
	for range 5 {
		text, isWhole, err := readOnce(path)
		if isWhole || err != nil {
			return text, err
		}
	}
	return nil, fmt.Errorf("%s changes while it is read", path)
}

// readOnce reads a file, and tells whether nobody wrote to it meanwhile. A pipe
// or a device would hold the handshake up.
func readOnce(path string) (text []byte, isWhole bool, err error) {
	const most = 1 << 20
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
	if text, err = io.ReadAll(io.LimitReader(file, most+1)); err != nil {
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
	case len(text) > most:
		return nil, false, fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return text, true, nil
}
