package adminapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/access"
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
	{http.MethodGet, "session", access.None, (*server).session},
	{http.MethodPost, "session", access.None, (*server).logIn},
	{http.MethodDelete, "session", access.None, (*server).logOut},
}

func (s *server) session(w http.ResponseWriter, r *http.Request) error {
	return done(w, s.sessionOf(s.Tokens.Of(r), s.Tokens.Sessions.Of(r)))
}

func (s *server) sessionOf(level, byCookie access.Level) *Session {
	now := &Session{Level: levelNames[level], Cookie: byCookie != access.None}
	if s.Tokens.Made && !s.Tokens.Exposed {
		now.TokenFile = s.TokenFile
	}
	return now
}

// logIn exchanges a token for a cookie.
func (s *server) logIn(w http.ResponseWriter, r *http.Request) error {
	if wait := s.Tokens.Sessions.Wait(r); wait > 0 {
		seconds := int64((wait + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		return problem(http.StatusTooManyRequests, "too many wrong tokens from this address; try again in %d s", seconds)
	}
	var what LogIn
	if err := read(w, r, &what); err != nil {
		return err
	}
	level := s.Tokens.OfText(what.Token)
	if level == access.None {
		s.Tokens.Sessions.Failed(r)
		s.Refused("token")
		s.Logger.Warn("a log-in at the admin address had a wrong token", "peer", r.RemoteAddr)
		return problem(http.StatusUnauthorized, "this is neither admin_token nor admin_read_token")
	}
	http.SetCookie(w, s.Tokens.Sessions.Open(r, level))
	s.Logger.Info("an operator has logged in", "level", levelNames[level], "author", authorOf(r), "peer", r.RemoteAddr)
	return done(w, s.sessionOf(level, level))
}

func (s *server) logOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.Tokens.Sessions.Close(r))
	r.Header.Del("Cookie")
	return done(w, s.sessionOf(s.Tokens.Of(r), access.None))
}
