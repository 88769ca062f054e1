package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/e2e/certs"
)

// writePair writes a certificate of the authority and its key, and returns their paths.
func writePair(t *testing.T, dir string, a *certs.Authority) (cert, key string) {
	t.Helper()
	p, err := a.Sign("koalagate")
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, text := range map[string][]byte{cert: p.Cert, key: p.Key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// The HTTP and the admin address serve TLS with their own files, which reload; the
// admin address requires certificates of its callers.
func TestHTTPAndAdminAddressesUseTLS(t *testing.T) {
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := writePair(t, dir, ca)
	callers := filepath.Join(dir, "callers.crt")
	if err := os.WriteFile(callers, ca.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	s, text := open(t, map[string]any{
		"http_tls_cert": cert, "http_tls_key": key,
		"admin_tls_cert": cert, "admin_tls_key": key, "admin_tls_client_ca": callers,
	})
	stop, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stop, nil) }()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	stranger := &tls.Config{RootCAs: roots}
	known := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}
	a := s.Addresses()
	first := wantTLS(t, stranger, "https://"+a.HTTP+"/rule/browse?uid=ann", http.StatusOK)
	wantTLS(t, known, "https://"+a.Admin+"/readyz", http.StatusOK)
	wantTLS(t, stranger, "https://"+a.Admin+"/readyz", 0)
	wantTLS(t, stranger, "http://"+a.HTTP+"/rule/browse?uid=ann", http.StatusBadRequest)

	writePair(t, dir, ca)
	if wantTLS(t, stranger, "https://"+a.HTTP+"/rule/browse?uid=ann", http.StatusOK) == first {
		t.Error("a new connection still sees the first certificate")
	}
	stop <- os.Interrupt
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still running after a signal")
	}
	for _, want := range []string{"setting=http_addr", "setting=admin_addr"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, text)
		}
	}
}

// A connection gets no answer after the certificate of its caller has expired, over HTTP and gRPC.
// A caller that has another certificate by then goes on.
func TestConnectionsEndWithTheCertificatesOfTheirCallers(t *testing.T) {
	v := certs.NewVault(t)
	ca := v.Authority("ca")
	v.Serve(v.Sign(ca, "localhost"))
	v.Write(v.Path("callers.crt"), ca.Cert)
	s, _ := open(t, map[string]any{
		"http_tls_cert": v.Files.Cert, "http_tls_key": v.Files.Key, "http_tls_client_ca": v.Path("callers.crt"),
		"grpc_tls_cert": v.Files.Cert, "grpc_tls_key": v.Files.Key, "grpc_tls_client_ca": v.Path("callers.crt"),
	})
	stop, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stop, nil) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	expiry := time.Now().Add(2 * time.Second).Truncate(time.Second)
	until := func(at time.Time) *tls.Certificate {
		p, err := ca.SignUntil("gateway", at)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	first, next := until(expiry), until(expiry.Add(time.Hour))
	with := func(renews bool) *tls.Config {
		return &tls.Config{RootCAs: roots, ServerName: "localhost", GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if renews && time.Now().After(expiry) {
				return next, nil
			}
			return first, nil
		}}
	}
	var callers sync.WaitGroup
	for _, renews := range []bool{false, true} {
		ask, shake := askHTTP(t, "https://"+s.Addresses().HTTP+"/rule/browse?uid=ann", with(renews)), askGRPC(t, s.Addresses().GRPC, with(renews))
		for name, call := range map[string]func() error{"HTTP": ask, "gRPC": shake} {
			callers.Go(func() {
				for time.Now().Before(expiry.Add(300 * time.Millisecond)) {
					time.Sleep(5 * time.Millisecond)
					begin := time.Now()
					err := call()
					if expired := !renews && !begin.Before(expiry); expired && err == nil {
						t.Errorf("%s: an answer %v after the certificate has expired", name, begin.Sub(expiry))
					} else if time.Now().Before(expiry) && err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				if err := call(); renews && err != nil {
					t.Errorf("%s, with a new certificate: %v", name, err)
				}
			})
		}
	}
	callers.Wait()
	stop <- os.Interrupt
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// askHTTP returns a function that requests a URL over a connection that stays open.
func askHTTP(t *testing.T, url string, config *tls.Config) func() error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	return func() error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
}

// askGRPC returns a function that asks for the health at an address over a connection that stays
// open.
func askGRPC(t *testing.T, address string, config *tls.Config) func() error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := healthv1.NewHealthClient(conn)
	return func() error {
		_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err
	}
}

// wantTLS requests a URL over a new connection, and returns the serial number of the
// server's certificate, if there is one. Status 0 wants no answer.
func wantTLS(t *testing.T, config *tls.Config, url string, status int) (serial string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		if status != 0 {
			t.Errorf("%s: %v, want %d", url, err, status)
		}
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // the status decides
	if resp.StatusCode != status {
		t.Errorf("%s: %d %s, want %d", url, resp.StatusCode, body, status)
	}
	if resp.TLS == nil {
		return ""
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.String()
}
