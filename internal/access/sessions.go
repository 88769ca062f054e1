package access

import (
	"crypto/rand"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/browser"
)

const (
	// sessionTime is the time after which a session ends.
	sessionTime = 12 * time.Hour
	// maxSessions bounds the sessions. A new one replaces the oldest.
	maxSessions = 256
)

// Sessions are the log-ins of browsers: a token is exchanged for a cookie that scripts
// cannot read and that no other site can use. They end with the process. It is safe for
// concurrent use; the zero value is not ready for use.
type Sessions struct {
	path string // of the cookies
	now  func() time.Time

	mu   sync.Mutex
	open map[string]session
}

type session struct {
	level Level
	until time.Time
}

// NewSessions returns sessions for the paths below a path.
func NewSessions(path string) *Sessions {
	return &Sessions{path: path, now: time.Now, open: make(map[string]session)}
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
