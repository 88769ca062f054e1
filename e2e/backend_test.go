package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// backend is an application that counts the requests that it works on at the same time,
// and holds their answers on demand.
type backend struct {
	address string
	answer  http.HandlerFunc
	// held is closed when requests may be answered; nil holds none.
	held atomic.Pointer[chan struct{}]

	mu                     sync.Mutex
	reached, running, most int
}

// startBackend starts an application with an answer.
func startBackend(t *testing.T, answer http.HandlerFunc) *backend {
	t.Helper()
	b := &backend{answer: answer}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.address = strings.TrimPrefix(server.URL, "http://")
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		return
	}
	b.begin()
	defer b.end()
	if held := b.held.Load(); held != nil {
		select {
		case <-*held:
		case <-r.Context().Done():
			return
		}
	}
	b.answer(w, r)
}

func (b *backend) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reached++
	b.running++
	b.most = max(b.most, b.running)
}

func (b *backend) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
}

// requests returns the number of requests that reached the application.
func (b *backend) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached
}

// mostAtOnce returns the largest number of requests that it worked on at the same time.
func (b *backend) mostAtOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// isIdle reports whether it works on no request.
func (b *backend) isIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running == 0
}

// hold holds the answers of requests from now on until release is called.
func (b *backend) hold() (release func()) {
	held := make(chan struct{})
	b.held.Store(&held)
	return sync.OnceFunc(func() { close(held) })
}
