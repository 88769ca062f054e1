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
// every path with 200 and what reached it, and counts.
type App struct {
	Address string // host:port
	reached atomic.Int64
}

// Reached is how many requests came through to the application.
func (a *App) Reached() int64 { return a.reached.Load() }

// App starts an application.
func (s *Stage) App() (*App, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &App{Address: l.Addr().String()}
	server := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // it ends with ErrServerClosed
	}()
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-done
	})
	return a, nil
}

// Arrived is what the application says of a request.
type Arrived struct {
	Method   string `json:"method"`
	Path     string `json:"path"`
	Decision string `json:"decision"` // as the gateway handed it on
	Rule     string `json:"rule"`
	Body     string `json:"body,omitempty"` // its SHA-256 in hex; "" for a request without
}

// ServeHTTP answers with what arrived.
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
	// The error is that of a gateway that went away.
	_ = json.NewEncoder(w).Encode(Arrived{
		Method: r.Method, Path: r.URL.RequestURI(),
		Decision: spoken(r.Header, "x-koala-decision"), Rule: spoken(r.Header, "x-koala-rule"), Body: body,
	})
}

// spoken is what a header says to an application behind CGI, to which an
// underscore is a hyphen; several that are one to it are told together.
func spoken(h http.Header, name string) string {
	var all []string
	for key, values := range h {
		if strings.ReplaceAll(strings.ToLower(key), "_", "-") == name {
			all = append(all, values...)
		}
	}
	return strings.Join(all, ",")
}
