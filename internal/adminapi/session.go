package adminapi

import (
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/bearer"
)

// LogIn is the request to begin a session.
type LogIn struct {
	Token string `json:"token"`
}

// Session reports what the caller may do.
type Session struct {
	Level string `json:"level"` // none, read or change
	// Cookie reports that a session gives the caller this level or a part of it.
	Cookie bool `json:"cookie"`
	// TokenFile is the file with the token for changes on this machine; "" if the token
	// is configured, or other machines can reach the address.
	TokenFile string `json:"token_file,omitempty"`
}

// levelNames are the names of the levels.
var levelNames = map[access.Level]string{access.None: "none", access.Read: "read", access.Change: "change"}

// open are the routes that need no token. Without one, callers learn only that they need one.
var open = []route{
	{http.MethodGet, "session", access.None, light, (*server).session},
	{http.MethodPost, "session", access.None, light, (*server).logIn},
	{http.MethodDelete, "session", access.None, light, (*server).logOut},
}

func (s *server) session(w http.ResponseWriter, r *http.Request) error {
	level, wait := s.Tokens.Of(r)
	if wait > 0 {
		return s.slowed(w, r, wait)
	}
	return done(w, r, s.sessionOf(level, s.Tokens.Sessions.Of(r)))
}

func (s *server) sessionOf(level, byCookie access.Level) *Session {
	now := &Session{Level: levelNames[level], Cookie: byCookie != access.None}
	if s.Tokens.Made && !s.Tokens.Exposed {
		now.TokenFile = s.Tokens.File
	}
	return now
}

// logIn exchanges a token for a cookie.
func (s *server) logIn(w http.ResponseWriter, r *http.Request) error {
	var what LogIn
	if err := read(w, r, &what); err != nil {
		return err
	}
	level, wait := s.Tokens.OfToken(r, what.Token)
	if wait > 0 {
		return s.slowed(w, r, wait)
	}
	if level == access.None {
		s.Refused("token")
		s.Logger.Warn("a log-in at the admin address had a wrong token", "peer", r.RemoteAddr)
		return problem(http.StatusUnauthorized, "%s", s.Tokens.Wrong())
	}
	http.SetCookie(w, s.Tokens.Sessions.Open(r, level))
	s.Logger.Info("an operator has logged in", "level", levelNames[level], "author", authorOf(r), "peer", r.RemoteAddr)
	return done(w, r, s.sessionOf(level, level))
}

func (s *server) logOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.Tokens.Sessions.Close(r))
	r.Header.Del("Cookie")
	level, _ := s.Tokens.Of(r)
	return done(w, r, s.sessionOf(level, access.None))
}

// slowed returns the answer to a peer that sent too many wrong tokens.
func (s *server) slowed(w http.ResponseWriter, r *http.Request, wait time.Duration) *Problem {
	s.Refused("token")
	s.warnOfGuesses(r)
	return problem(http.StatusTooManyRequests, "%s", bearer.Refuse(w.Header(), wait))
}

func (s *server) warnOfGuesses(r *http.Request) {
	if skipped, due := s.guessed.Due(); due {
		s.Logger.Warn("an address that sent too many wrong tokens must wait", "peer", r.RemoteAddr, "suppressed", skipped)
	}
}

// mayChange reports whether the caller has the token for changes.
func (s *server) mayChange(r *http.Request) bool {
	level, _ := s.Tokens.Of(r)
	return level == access.Change
}
