package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// App is the application behind the gateways. It runs in this process, answers
// every request with 200 and an Arrived, and counts requests.
type App struct {
	Address string // host:port
	reached atomic.Int64
}

// Reached returns the number of requests that reached the application, except
// those for /healthz.
func (a *App) Reached() int64 { return a.reached.Load() }

// App starts an application.
func (s *Stage) App() (*App, error) {
	a := new(App)
	address, err := s.serve(a)
	if err != nil {
		return nil, err
	}
	a.Address = address
	return a, nil
}

// serve serves HTTP with h on a free port until the stage closes, and returns the
// address.
func (s *Stage) serve(h http.Handler) (address string, err error) {
	l, err := net.Listen("tcp", local(s.samplePort(8000)))
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // returns ErrServerClosed
	}()
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-done
	})
	return l.Addr().String(), nil
}

// Arrived describes a request as it reached the application.
type Arrived struct {
	Method   string `json:"method"`
	Path     string `json:"path"`
	Decision string `json:"decision"` // as passed on by the gateway
	Rule     string `json:"rule"`
	Body     string `json:"body,omitempty"` // its SHA-256 in hex; "" without a body
}

// ServeHTTP answers with an Arrived.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" {
		a.reached.Add(1)
	}
	digest := sha256.New()
	length, err := io.Copy(digest, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := ""
	if length > 0 {
		body = hex.EncodeToString(digest.Sum(nil))
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the gateway has disconnected.
	_ = json.NewEncoder(w).Encode(Arrived{
		Method: r.Method, Path: r.URL.RequestURI(),
		Decision: cgiHeader(r.Header, "x-koala-decision"), Rule: cgiHeader(r.Header, "x-koala-rule"), Body: body,
	})
}

// cgiHeader returns a header's value as an application behind CGI sees it, where
// underscores and hyphens are equal; several values are joined by commas.
func cgiHeader(h http.Header, name string) string {
	var all []string
	for key, values := range h {
		if strings.ReplaceAll(strings.ToLower(key), "_", "-") == name {
			all = append(all, values...)
		}
	}
	return strings.Join(all, ",")
}
