package rig

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Backend is an application that counts the requests that it works on at the same time,
// and holds their answers on demand.
type Backend struct {
	Address string
	answer  http.HandlerFunc
	// held is closed when requests may be answered; nil holds none.
	held atomic.Pointer[chan struct{}]

	mu                     sync.Mutex
	reached, running, most int
}

// StartBackend starts an application with an answer.
func StartBackend(t *testing.T, answer http.HandlerFunc) *Backend {
	t.Helper()
	b := &Backend{answer: answer}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.Address = strings.TrimPrefix(server.URL, "http://")
	return b
}

func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (b *Backend) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reached++
	b.running++
	b.most = max(b.most, b.running)
}

func (b *Backend) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
}

// Requests returns the number of requests that reached the application.
func (b *Backend) Requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached
}

// MostAtOnce returns the largest number of requests that it worked on at the same time.
func (b *Backend) MostAtOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// IsIdle reports whether it works on no request.
func (b *Backend) IsIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running == 0
}

// Hold holds the answers of requests from now on until release is called.
func (b *Backend) Hold() (release func()) {
	held := make(chan struct{})
	b.held.Store(&held)
	return sync.OnceFunc(func() { close(held) })
}

// Overlap sends requests at once while the application holds its answers: as many as may
// run reach it, and the others are refused.
func Overlap(t *testing.T, m *Backend, requests, most int, send func(i int) (Reply, error)) {
	t.Helper()
	release := m.Hold()
	defer release()
	before := m.Requests()
	var refused, passed atomic.Int64
	Concurrently(requests, func(i int) {
		r, err := send(i)
		switch {
		case err == nil && r.Status == http.StatusOK:
			passed.Add(1)
		case err == nil && r.Status == http.StatusTooManyRequests:
			if refused.Add(1) == int64(requests-most) {
				if !BecomesTrue(func() bool { return m.Requests() == before+most }) {
					t.Errorf("%d requests reached the application; want %d", m.Requests()-before, most)
				}
				release()
			}
		default:
			t.Errorf("status %d, %v; want 200 or 429", r.Status, err)
		}
	})
	if int(passed.Load()) != most || m.MostAtOnce() != most {
		t.Errorf("%d of %d requests passed, and the application worked on %d at once; want %d", passed.Load(), requests, m.MostAtOnce(), most)
	}
}

// Arrivals is an application that records when requests reach it, except those for /healthz.
type Arrivals struct {
	mu    sync.Mutex
	Times []time.Time
}

// Reached returns when the requests so far reached the application.
func (a *Arrivals) Reached() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.Times)
}

func (a *Arrivals) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" { // the stage asks whether gateways answer
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Times = append(a.Times, time.Now())
}
