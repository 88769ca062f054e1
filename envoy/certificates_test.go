package envoy_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
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
type vault struct{ *certs.Vault }

func newVault(t *testing.T) *vault { return &vault{certs.NewVault(t)} }

// admitCallersOf makes the server require certificates of this authority.
func (v *vault) admitCallersOf(a *certs.Authority) {
	v.Helper()
	v.Files.ClientCA = v.Path("clients.crt")
	v.Write(v.Files.ClientCA, a.Cert)
}

func (v *vault) load(log *syncBuffer) *certificates.Certificates {
	v.Helper()
	c, err := certificates.Load(v.Files, slog.New(slog.NewTextHandler(log, nil)))
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
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "koalagate"))
	f := start(t, envoy.Options{Certificates: v.load(&syncBuffer{})}, allow)
	if err := checkOn(t, secureConn(t, f.addr, trusting(t, ca))); err != nil {
		t.Errorf("a call over TLS: %v", err)
	}
	if _, err := f.check(t); err == nil {
		t.Error("a call in plain text was answered")
	}
	if err := checkOn(t, secureConn(t, f.addr, trusting(t, v.Authority("other")))); err == nil {
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
	ca, clients, others := v.Authority("ca"), v.Authority("clients"), v.Authority("others")
	v.Serve(v.Sign(ca, "koalagate"))
	v.admitCallersOf(clients)
	f := start(t, envoy.Options{Certificates: v.load(&syncBuffer{})}, allow)
	known, stranger := trusting(t, ca, v.Sign(clients, "envoy")), trusting(t, ca, v.Sign(others, "envoy"))

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
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "first"))
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

	second := v.Sign(ca, "second")
	v.Write(v.Files.Cert, second.Cert) // the key is not there yet
	want("first")
	want("first")
	if n := strings.Count(log.String(), "are invalid"); n != 1 {
		t.Errorf("the log complains %d times of the same fault; want once:\n%s", n, log)
	}
	v.Write(v.Files.Key, second.Key)
	want("second")

	if err := os.Remove(v.Files.Key); err != nil {
		t.Fatal(err)
	}
	want("second")
	v.Serve(v.Sign(ca, "third"))
	want("third")
	if err := checkOn(t, open); err != nil {
		t.Errorf("a call on a connection from before the changes: %v", err)
	}
}

// Connections begin and end continuously while the files are replaced one after the
// other, so that half of the time they do not match.
func TestNoCallFailsWhenCertificatesChange(t *testing.T) {
	v := newVault(t)
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "koalagate"))
	v.admitCallersOf(ca)
	f := start(t, envoy.Options{Certificates: v.load(&syncBuffer{}), MaxConnectionAge: 20 * time.Millisecond}, allow)
	caller := trusting(t, ca, v.Sign(ca, "envoy"))

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
		v.Serve(v.Sign(ca, "koalagate"))
		time.Sleep(15 * time.Millisecond)
	}
	stopped.Store(true)
	callers.Wait()
}
