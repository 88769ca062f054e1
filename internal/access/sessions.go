package access

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/browser"
)

const (
	// sessionTime is the time after which a session ends.
	sessionTime = 12 * time.Hour
	// maxSessions bounds the sessions. A new one replaces the oldest.
	maxSessions = 256

	// triesPerMinute is the number of failed log-ins of a peer in a minute.
	triesPerMinute = 5
	// maxTriers bounds the peers whose failures are counted singly; all others share
	// their tries.
	maxTriers = 1024
)

// Sessions are the log-ins of browsers: a token is exchanged for a cookie that scripts
// cannot read and that no other site can use. They end with the process. It is safe for
// concurrent use; the zero value is not ready for use.
type Sessions struct {
	path string // of the cookies
	now  func() time.Time

	mu     sync.Mutex
	open   map[string]session
	failed map[netip.Addr]failures
}

type session struct {
	level Level
	until time.Time
}

// failures are the failed log-ins of a peer since a time.
type failures struct {
	since time.Time
	count int
}

// NewSessions returns sessions for the paths below a path.
func NewSessions(path string) *Sessions {
	return &Sessions{path: path, now: time.Now, open: make(map[string]session), failed: make(map[netip.Addr]failures)}
}

// Of returns the level of the session of a request, None without one. A page of another
// origin has none, even on the same host.
func (s *Sessions) Of(r *http.Request) Level {
	if s == nil {
		return None
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil || browser.IsForeign(r) {
		return None
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.open[cookie.Value]
	if !ok || !s.now().Before(found.until) {
		return None
	}
	return found.level
}

// Open begins a session with a level, and returns its cookie.
func (s *Sessions) Open(r *http.Request, level Level) *http.Cookie {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	oldest := ""
	for other, o := range s.open {
		if !now.Before(o.until) {
			delete(s.open, other)
		} else if oldest == "" || o.until.Before(s.open[oldest].until) {
			oldest = other
		}
	}
	if len(s.open) >= maxSessions {
		delete(s.open, oldest)
	}
	s.open[id] = session{level, now.Add(sessionTime)}
	delete(s.failed, peerOf(r))
	return s.cookie(r, id, int(sessionTime/time.Second))
}

// Close ends the session of a request, and returns the cookie that removes its cookie.
func (s *Sessions) Close(r *http.Request) *http.Cookie {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		delete(s.open, cookie.Value)
		s.mu.Unlock()
	}
	return s.cookie(r, "", -1)
}

func (s *Sessions) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // it is Secure with TLS; without, browsers would not send it back
		Name: cookieName(r), Value: value, Path: s.path, MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}

// cookieName returns the name of the cookie. Browsers send the cookies of a host to all
// its ports, so that each instance of a host needs a name of its own.
func cookieName(r *http.Request) string {
	name := "koalagate"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port
	}
	return name
}

// Failed records a failed log-in.
func (s *Sessions) Failed(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, peer := s.now(), peerOf(r)
	f, known := s.failed[peer]
	if !known && len(s.failed) >= maxTriers {
		for other, o := range s.failed {
			if now.Sub(o.since) >= time.Minute {
				delete(s.failed, other)
			}
		}
		if len(s.failed) >= maxTriers {
			peer = netip.Addr{}
			f = s.failed[peer]
		}
	}
	if now.Sub(f.since) >= time.Minute {
		f = failures{since: now}
	}
	f.count++
	s.failed[peer] = f
}

// Wait returns the time after which the peer of a request may try to log in again, 0 for
// now.
func (s *Sessions) Wait(r *http.Request) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, known := s.failed[peerOf(r)]
	if !known && len(s.failed) >= maxTriers {
		f = s.failed[netip.Addr{}]
	}
	if left := time.Minute - s.now().Sub(f.since); f.count >= triesPerMinute && left > 0 {
		return left
	}
	return 0
}

// peerOf returns the address of a peer: of an IPv6 address its network, the zero address
// for a Unix socket.
func peerOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	peer := at.Addr().Unmap().WithZone("")
	if peer.Is6() {
		network, _ := peer.Prefix(64) // valid for every IPv6 address
		peer = network.Addr()
	}
	return peer
}
