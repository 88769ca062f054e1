package envoy_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/certificates"
)

// vault is a folder with the certificate files of a server, and their authorities.
type vault struct {
	*testing.T
	dir   string
	files certificates.Files
}

func newVault(t *testing.T) *vault {
	v := &vault{T: t, dir: t.TempDir()}
	v.files = certificates.Files{Cert: v.path("tls.crt"), Key: v.path("tls.key")}
	return v
}

func (v *vault) path(name string) string { return filepath.Join(v.dir, name) }

func (v *vault) write(path string, text []byte) {
	v.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		v.Fatal(err)
	}
}

// serve writes a pair to the files of the server.
func (v *vault) serve(p certs.Pair) {
	v.Helper()
	v.write(v.files.Cert, p.Cert)
	v.write(v.files.Key, p.Key)
}

func (v *vault) authority(name string) *certs.Authority {
	v.Helper()
	a, err := certs.NewAuthority(name)
	if err != nil {
		v.Fatal(err)
	}
	return a
}

func (v *vault) sign(a *certs.Authority, name string) certs.Pair {
	v.Helper()
	p, err := a.Sign(name)
	if err != nil {
		v.Fatal(err)
	}
	return p
}

// admitCallersOf makes the server require certificates of this authority.
func (v *vault) admitCallersOf(a *certs.Authority) {
	v.Helper()
	v.files.ClientCA = v.path("clients.crt")
	v.write(v.files.ClientCA, a.Cert)
}

func (v *vault) load(log *syncBuffer) *certificates.Certificates {
	v.Helper()
	c, err := certificates.Load(v.files, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		v.Fatal(err)
	}
	return c
}

// trusting returns the credentials of a caller that trusts an authority, with its own
// certificate if it has one.
func trusting(t *testing.T, a *certs.Authority, own ...certs.Pair) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	config.RootCAs.AppendCertsFromPEM(a.Cert)
	for _, p := range own {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = append(config.Certificates, pair)
	}
	return config
}

func secureConn(t *testing.T, addr string, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// checkOn makes one call, over a new connection unless conn is set.
func checkOn(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	_, err := authv3.NewAuthorizationClient(conn).Check(deadline(t), &authv3.CheckRequest{})
	return err
}

// serverName returns the name in the certificate of a new connection.
func serverName(t *testing.T, addr string, config *tls.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestServerUsesTLS(t *testing.T) {
	v := newVault(t)
	ca := v.authority("ca")
	v.serve(v.sign(ca, "koalagate"))
	f := start(t, envoy.Options{Certificates: v.load(&syncBuffer{})}, allow)
	if err := checkOn(t, secureConn(t, f.addr, trusting(t, ca))); err != nil {
		t.Errorf("a call over TLS: %v", err)
	}
	if _, err := f.check(t); err == nil {
		t.Error("a call in plain text was answered")
	}
	if err := checkOn(t, secureConn(t, f.addr, trusting(t, v.authority("other")))); err == nil {
		t.Error("a caller that does not trust the authority went on")
	}
	for version, served := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := trusting(t, ca)
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, version
		conn, err := tls.Dial("tcp", f.addr, config)
		if (err == nil) != served {
			t.Errorf("%s: %v; served should be %t", tls.VersionName(version), err, served)
		}
		if err == nil {
			conn.Close()
		}
	}
}

func TestCallersNeedACertificateOfTheClientCA(t *testing.T) {
	v := newVault(t)
	ca, clients, others := v.authority("ca"), v.authority("clients"), v.authority("others")
	v.serve(v.sign(ca, "koalagate"))
	v.admitCallersOf(clients)
	f := start(t, envoy.Options{Certificates: v.load(&syncBuffer{})}, allow)
	known, stranger := trusting(t, ca, v.sign(clients, "envoy")), trusting(t, ca, v.sign(others, "envoy"))

	open := secureConn(t, f.addr, known)
	if err := checkOn(t, open); err != nil {
		t.Errorf("a caller of the authority: %v", err)
	}
	if err := checkOn(t, secureConn(t, f.addr, trusting(t, ca))); err == nil {
		t.Error("a caller without a certificate was answered")
	}
	if err := checkOn(t, secureConn(t, f.addr, stranger)); err == nil {
		t.Error("a caller of another authority was answered")
	}

	v.admitCallersOf(others)
	if err := checkOn(t, secureConn(t, f.addr, stranger)); err != nil {
		t.Errorf("a caller of the new authority: %v", err)
	}
	if err := checkOn(t, secureConn(t, f.addr, known)); err == nil {
		t.Error("a new connection of the former authority's caller was answered")
	}
	if err := checkOn(t, open); err != nil {
		t.Errorf("a call on a connection from before the change: %v", err)
	}
}

func TestNewConnectionsUseTheNewCertificate(t *testing.T) {
	v := newVault(t)
	ca := v.authority("ca")
	v.serve(v.sign(ca, "first"))
	log := &syncBuffer{}
	f := start(t, envoy.Options{Certificates: v.load(log)}, allow)
	open := secureConn(t, f.addr, trusting(t, ca))
	if err := checkOn(t, open); err != nil {
		t.Fatal(err)
	}
	want := func(name string) {
		t.Helper()
		if got := serverName(t, f.addr, trusting(t, ca)); got != name {
			t.Errorf("a new connection sees %q; want %q", got, name)
		}
	}
	want("first")

	second := v.sign(ca, "second")
	v.write(v.files.Cert, second.Cert) // the key is not there yet
	want("first")
	want("first")
	if n := strings.Count(log.String(), "are invalid"); n != 1 {
		t.Errorf("the log complains %d times of the same fault; want once:\n%s", n, log)
	}
	v.write(v.files.Key, second.Key)
	want("second")

	if err := os.Remove(v.files.Key); err != nil {
		t.Fatal(err)
	}
	want("second")
	v.serve(v.sign(ca, "third"))
	want("third")
	if err := checkOn(t, open); err != nil {
		t.Errorf("a call on a connection from before the changes: %v", err)
	}
}

// Connections begin and end continuously while the files are replaced one after the
// other, so that half of the time they do not match.
func TestNoCallFailsWhenCertificatesChange(t *testing.T) {
	v := newVault(t)
	ca := v.authority("ca")
	v.serve(v.sign(ca, "koalagate"))
	v.admitCallersOf(ca)
	f := start(t, envoy.Options{Certificates: v.load(&syncBuffer{}), MaxConnectionAge: 20 * time.Millisecond}, allow)
	caller := trusting(t, ca, v.sign(ca, "envoy"))

	var stopped atomic.Bool
	var callers sync.WaitGroup
	for range 4 {
		conn := secureConn(t, f.addr, caller)
		callers.Go(func() {
			for !stopped.Load() {
				if err := checkOn(t, conn); err != nil {
					t.Errorf("a call while certificates change: %v", err)
					return
				}
			}
		})
	}
	for range 20 {
		v.serve(v.sign(ca, "koalagate"))
		time.Sleep(15 * time.Millisecond)
	}
	stopped.Store(true)
	callers.Wait()
}
