package certificates_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/internal/certificates"
)

// The server offers the protocols that it was given, and a changed certificate applies
// to the next handshake. Package envoy tests the other changes through gRPC.
func TestServerConfigOffersProtocolsAndReloads(t *testing.T) {
	v := certs.NewVault(t)
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "first"))
	loaded, err := certificates.Load(v.Files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	for _, c := range []struct {
		serve           string
		offers, accepts []string
		want            string // the protocol, or the text of the error
	}{
		{"first", []string{"http/1.1"}, []string{"h2", "http/1.1"}, "http/1.1"},
		{"second", []string{"http/1.1"}, []string{"h2"}, "no application protocol"},
		{"third", nil, []string{"h2"}, ""},
	} {
		v.Serve(v.Sign(ca, c.serve))
		client, server := net.Pipe()
		go func() {
			// The client reports the error of the handshake.
			_ = tls.Server(server, loaded.ServerConfig(c.offers...)).HandshakeContext(t.Context())
			_ = server.Close()
		}()
		conn := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: c.serve, NextProtos: c.accepts})
		err := conn.HandshakeContext(t.Context())
		if state := conn.ConnectionState(); err == nil && state.NegotiatedProtocol != c.want {
			t.Errorf("%s: negotiated %q, want %q", c.serve, state.NegotiatedProtocol, c.want)
		}
		if err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.serve, err, c.want)
		}
		_ = client.Close()
	}
}

func TestInvalidCertificatesAreNamedAtStart(t *testing.T) {
	v := certs.NewVault(t)
	ca := v.Authority("ca")
	pair, other := v.Sign(ca, "koalagate"), v.Sign(ca, "other")
	v.Serve(pair)
	good := v.Files
	for name, text := range map[string][]byte{
		"other.key": other.Key, "text": []byte("no PEM\n"), "empty": nil,
		"huge": []byte(strings.Repeat("x", 1<<20+1)), "broken.crt": pair.Cert[:len(pair.Cert)/2],
	} {
		v.Write(v.Path(name), text)
	}
	for name, test := range map[string]struct {
		files certificates.Files
		want  []string
	}{
		"no such certificate":     {certificates.Files{Cert: v.Path("none"), Key: good.Key}, []string{"certificate:", "none", "no such file"}},
		"no such key":             {certificates.Files{Cert: good.Cert, Key: v.Path("none")}, []string{"key:", "none", "no such file"}},
		"a key of another one":    {certificates.Files{Cert: good.Cert, Key: v.Path("other.key")}, []string{"tls.crt", "other.key", "does not match"}},
		"no PEM":                  {certificates.Files{Cert: v.Path("text"), Key: good.Key}, []string{"text", "PEM"}},
		"cut off":                 {certificates.Files{Cert: v.Path("broken.crt"), Key: good.Key}, []string{"broken.crt", "PEM"}},
		"cert and key exchanged":  {certificates.Files{Cert: good.Key, Key: good.Cert}, []string{"tls.key", "PEM"}},
		"empty":                   {certificates.Files{Cert: v.Path("empty"), Key: good.Key}, []string{"empty is empty"}},
		"a folder":                {certificates.Files{Cert: v.Dir, Key: good.Key}, []string{"not a regular file"}},
		"a device without end":    {certificates.Files{Cert: "/dev/zero", Key: good.Key}, []string{"/dev/zero is not a regular file"}},
		"too large":               {certificates.Files{Cert: v.Path("huge"), Key: good.Key}, []string{"huge is larger than"}},
		"no such authorities":     {certificates.Files{Cert: good.Cert, Key: good.Key, ClientCA: v.Path("none")}, []string{"authorities of callers:", "none", "no such file"}},
		"authorities without PEM": {certificates.Files{Cert: good.Cert, Key: good.Key, ClientCA: v.Path("text")}, []string{"authorities of callers:", "text contains no certificate"}},
		"a key for authorities":   {certificates.Files{Cert: good.Cert, Key: good.Key, ClientCA: good.Key}, []string{"authorities of callers:", "tls.key contains no certificate"}},
	} {
		_, err := certificates.Load(test.files, slog.New(slog.DiscardHandler))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want it to say %q", name, err, want)
			}
		}
	}
}

func TestExpiredCertificateIsLoggedAsWarning(t *testing.T) {
	v := certs.NewVault(t)
	past, err := v.Authority("ca").SignUntil("koalagate", time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	v.Serve(past)
	log := new(bytes.Buffer)
	if _, err := certificates.Load(v.Files, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "expired") {
		t.Errorf("the log says %s; want a warning that it has expired", text)
	}
}

func TestClientNameIsRequired(t *testing.T) {
	v := certs.NewVault(t)
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "server"))
	v.Files.ClientCA, v.Files.ClientName = v.Path("ca.crt"), "gateway"
	v.Write(v.Files.ClientCA, ca.Cert)
	loaded, err := certificates.Load(v.Files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	for name, want := range map[string]string{"gateway": "", "other": "not gateway"} {
		p := v.Sign(ca, name)
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		// Not a pipe without a buffer, in which both ends could wait for the other.
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() {
			server, err := l.Accept()
			if err == nil {
				err = tls.Server(server, loaded.ServerConfig()).HandshakeContext(t.Context())
				_ = server.Close()
			}
			accepted <- err
		}()
		client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "server", Certificates: []tls.Certificate{pair}})
		if err := conn.HandshakeContext(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err = <-accepted
		_, _ = client.Close(), l.Close()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
}

// ending is a connection that notes until when it may be used.
type ending struct {
	net.Conn
	until time.Time
}

func (e *ending) EndAt(at time.Time) { e.until = at }

// A connection ends with the certificate of its caller, or with the authority if that expires
// earlier.
func TestConnectionsEndWithTheCertificatesOfTheirCallers(t *testing.T) {
	v := certs.NewVault(t)
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "server"))
	v.Files.ClientCA = v.Path("ca.crt")
	v.Write(v.Files.ClientCA, ca.Cert)
	loaded, err := certificates.Load(v.Files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	block, _ := pem.Decode(ca.Cert)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Minute).Truncate(time.Second)
	for name, c := range map[string]struct{ expires, want time.Time }{
		"a certificate":                      {soon, soon},
		"a certificate beyond its authority": {authority.NotAfter.Add(time.Hour), authority.NotAfter},
	} {
		p, err := ca.SignUntil("gateway", c.expires)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		client, server := net.Pipe()
		called := make(chan error, 1)
		go func() {
			conn := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "server", Certificates: []tls.Certificate{pair}})
			called <- conn.HandshakeContext(t.Context())
		}()
		e := &ending{Conn: server}
		conn := tls.Server(e, loaded.ServerConfig("http/1.1"))
		if err := errors.Join(conn.HandshakeContext(t.Context()), <-called); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = client.Close(), server.Close()
		if !e.until.Equal(c.want) {
			t.Errorf("%s: the connection ends at %v; want %v", name, e.until, c.want)
		}
	}
}
