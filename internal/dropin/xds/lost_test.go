package xds_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/internal/dropin/xds"
	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
)

// A control plane that ends streams, or is away for a time, costs no limits. Each stream
// begins without a version, so that the control plane sends the current one.
func TestLostStreamIsOpenedAgain(t *testing.T) {
	s := xdstest.Start(t, nil)
	to := run(t, s.Address, nil)
	version := s.Publish(resource(t, "r", "d", limited("k", configv3.RateLimitUnit_DAY)))
	const streams = 6
	for i := 1; i < streams; i++ {
		s.Answers(version, i)
		if i%2 == 0 {
			s.Pause()
			s.Resume()
		} else {
			s.Drop()
		}
	}
	s.Answers(version, streams)
	for i, first := range s.First(streams) {
		if first.GetVersionInfo() != "" || first.GetNode().GetId() != "node" {
			t.Errorf("stream %d begins with %v", i, first)
		}
	}
	if to.loaded() != 1 {
		t.Error("the limits were lost with the stream")
	}
}

// relay passes connections on to an address. Of what comes back on the first connection
// it passes on only most bytes, and then closes it.
func relay(t *testing.T, to string, most int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var connections atomic.Int64
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); server.Close() }()
			isFirst := connections.Add(1) == 1
			go func() {
				defer client.Close()
				defer server.Close()
				if isFirst {
					_, _ = io.CopyN(client, server, most)
					return
				}
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	return l.Addr().String()
}

func TestHalfAResponseIsNotApplied(t *testing.T) {
	s := xdstest.Start(t, nil)
	const half = 100_000
	whole := s.Publish(resource(t, "r", "first"), resource(t, strings.Repeat("r", 2*half), "second"))
	to := run(t, relay(t, s.Address, half), nil)
	s.Answer(whole)
	if n := len(s.First(2)); n != 2 || to.loaded() != 2 {
		t.Errorf("%d streams and %d domains; want the whole response on a second stream", n, to.loaded())
	}
}

// files writes a certificate and its key, and returns their names.
func files(t *testing.T, folder string, p certs.Pair) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for name, text := range map[string][]byte{cert: p.Cert, key: p.Key} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// authority returns a new authority with its certificates.
func authority(t *testing.T, name string) (*certs.Authority, *x509.CertPool) {
	t.Helper()
	a, err := certs.NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Cert)
	return a, pool
}

// sign returns a certificate of an authority.
func sign(t *testing.T, a *certs.Authority, name string) certs.Pair {
	t.Helper()
	p, err := a.Sign(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The client reads its certificate for each connection, so that a control plane that
// trusts another authority from now on is reached with the new files, without a restart.
func TestMutualTLSWithChangedCertificates(t *testing.T) {
	plane, _ := authority(t, "plane")
	former, trustsFormer := authority(t, "former")
	next, trustsNext := authority(t, "next")
	pair := sign(t, plane, "envoy-gateway")
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	var trusted atomic.Pointer[x509.CertPool]
	trusted.Store(trustsFormer)
	s := xdstest.Start(t, &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted.Load(), NextProtos: []string{"h2"}}, nil
		},
	})
	folder := t.TempDir()
	cert, key := files(t, folder, sign(t, former, "ratelimit"))
	ca := filepath.Join(folder, "ca.crt")
	if err := os.WriteFile(ca, plane.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	secure := xds.TLS{Enabled: true, Cert: cert, Key: key, CA: ca, ServerName: "envoy-gateway"}
	to := run(t, s.Address, func(o *xds.Options) { o.TLS, o.ConnectRetry = secure, 10*time.Millisecond })
	s.Answer(s.Publish(resource(t, "r", "d")))

	// Another authority, and another version while the client has the former certificate.
	trusted.Store(trustsNext)
	s.Pause()
	s.Resume()
	version := s.Publish(resource(t, "r", "d"), resource(t, "r", "e"))
	if to.loaded() != 1 {
		t.Errorf("%d domains; want 1 until the certificate is trusted", to.loaded())
	}
	files(t, folder, sign(t, next, "ratelimit"))
	if s.Answer(version); to.loaded() != 2 {
		t.Errorf("%d domains; want 2", to.loaded())
	}
}

func TestInvalidTLSFilesAreNamed(t *testing.T) {
	a, _ := authority(t, "a")
	folder := t.TempDir()
	cert, key := files(t, folder, sign(t, a, "ratelimit"))
	missing := filepath.Join(folder, "missing")
	for _, c := range []struct {
		files xds.TLS
		want  string
	}{
		{xds.TLS{CA: missing}, missing},
		{xds.TLS{CA: key}, "contains no certificate"},
		{xds.TLS{Cert: cert}, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"},
		{xds.TLS{Cert: cert, Key: missing}, missing},
		{xds.TLS{Cert: cert, Key: cert}, "tls"},
	} {
		c.files.Enabled = true
		if _, err := xds.New(xds.Options{Server: "127.0.0.1:1", TLS: c.files}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v; want %s", c.files, err, c.want)
		}
	}
}
