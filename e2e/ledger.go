package e2e

import (
	"io"
	"net/http"
	"sync"
)

// TraceHeader identifies each request of a test, so that the records of the application
// and of koalagate can be compared.
const TraceHeader = "X-Trace"

// Entry is a request as it reached the application.
type Entry struct {
	Method string
	Host   string
	Path   string // decoded, as a router of net/http matches it
	Target string // as the gateway sent it
	Header http.Header
	// Trailer contains the fields after the body.
	Trailer http.Header
}

// Ledger is an application that answers every request with 200 and records it
// by its trace.
type Ledger struct {
	Address string // host:port

	mu      sync.Mutex
	entries map[string][]Entry
}

// Ledger starts a Ledger.
func (s *Stage) Ledger() (*Ledger, error) {
	l := &Ledger{entries: make(map[string][]Entry)}
	address, err := s.serve(l)
	if err != nil {
		return nil, err
	}
	l.Address = address
	return l, nil
}

// ServeHTTP records the request.
func (l *Ledger) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	trace := r.Header.Get(TraceHeader)
	_, _ = io.Copy(io.Discard, r.Body) // an incomplete body has no trailer
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[trace] = append(l.entries[trace], Entry{
		Method: r.Method, Host: r.Host, Path: r.URL.Path, Target: r.RequestURI, Header: r.Header.Clone(), Trailer: r.Trailer.Clone(),
	})
}

// Take returns the requests since its last call, by trace; "" is the trace of requests
// without one.
func (l *Ledger) Take() map[string][]Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.entries
	l.entries = make(map[string][]Entry)
	return entries
}
