package redisconn

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/koalagate/koalagate/e2e/certs"
)

// TestAnyNameAcceptsOtherHostsOfATrustedAuthority connects to a server whose certificate
// has another name.
func TestAnyNameAcceptsOtherHostsOfATrustedAuthority(t *testing.T) {
	trusted, err := certs.NewAuthority("trusted")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := certs.NewAuthority("foreign")
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, trusted.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		signer  *certs.Authority
		anyName bool
		accepts bool
	}{
		{"another name", trusted, false, false},
		{"another name, with AnyName", trusted, true, true},
		{"an unknown authority, with AnyName", foreign, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := test.signer.Sign("one")
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(p.Cert, p.Key)
			if err != nil {
				t.Fatal(err)
			}
			config, err := (&TLSFiles{CA: ca, AnyName: test.anyName}).config("two")
			if err != nil {
				t.Fatal(err)
			}
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if server, err := l.Accept(); err == nil {
					// The client reports the error of the handshake.
					_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}}).HandshakeContext(t.Context())
					_ = server.Close()
				}
			}()
			client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			err = tls.Client(client, config).HandshakeContext(t.Context())
			_ = client.Close()
			<-ended
			_ = l.Close()
			if (err == nil) != test.accepts {
				t.Errorf("got %v; want accepted: %t", err, test.accepts)
			}
		})
	}
}
