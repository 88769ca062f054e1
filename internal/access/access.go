// Package access decides who may read and who may change anything at the admin address:
// by bearer tokens, one for reading and one for changing. Reading needs no token on a
// loopback address or Unix socket if none is configured; changing always needs one. An
// instance without a configured token for changes makes one in a file that only its user
// can read, so that this user's commands on this host find it.
package access

import (
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/bearer"
)

// Level is the extent of a caller's rights.
type Level uint8

// The levels. Each includes the rights of the levels before it.
const (
	None Level = iota
	Read
	Change
)

// Tokens are the tokens of an address. The zero value lets callers read, not change.
type Tokens struct {
	// Change is the token for everything; "" for none.
	Change string
	// Read is the token for reading; "" for none.
	Read string
	// Made reports that Change was not configured but made by this instance, so that it
	// does not make reading need a token.
	Made bool
	// File is the file with a made Change, which refusals on this machine name; "" for none.
	File string
	// Exposed reports that other machines can reach the address: reading then needs a
	// token.
	Exposed bool
	// Sessions are the sessions of browsers; nil for none.
	Sessions *Sessions

	guesses bearer.Guesses
}

// Of returns the level of the caller of a request, and how long its peer must wait if its
// token was not compared, after too many wrong ones.
func (t *Tokens) Of(r *http.Request) (Level, time.Duration) {
	level, wait := t.OfToken(r, bearer.Token(r))
	level = max(level, t.Sessions.Of(r))
	if t.isOpen() {
		level = max(level, Read)
	}
	return level, wait
}

// Refusal is the answer to a request without the token that it needs.
type Refusal struct {
	Status int    // of HTTP: 401 if a token would help, 403 if there is none, 429 after too many wrong ones
	Detail string // what is missing, and what to do
}

// Admit returns nil if the caller of a request has the level that the request needs.
// Otherwise it returns the answer, whose header it sets in h.
func (t *Tokens) Admit(h http.Header, r *http.Request, needs Level) *Refusal {
	changes := needs == Change
	level, wait := t.Of(r)
	switch {
	case level >= needs:
		return nil
	case wait > 0:
		return &Refusal{http.StatusTooManyRequests, bearer.Refuse(h, wait)}
	case changes && level == Read && t.Change == "":
		return &Refusal{http.StatusForbidden, "changes need a token, and this instance has none; set admin_token_file, or state_dir, in which it makes one"}
	case !changes && t.Exposed && !t.Configured():
		return &Refusal{http.StatusForbidden, "not available beyond loopback without a token; set admin_token or admin_read_token, and send it as a bearer token"}
	}
	h.Set("WWW-Authenticate", "Bearer")
	switch {
	case changes && t.Made && t.File != "" && !t.Exposed:
		return &Refusal{http.StatusUnauthorized, "changes need the token in " + t.File + " as a bearer token; --token-file names it for commands"}
	case changes:
		return &Refusal{http.StatusUnauthorized, "changes need admin_token as a bearer token; --token-file names its file for commands"}
	}
	return &Refusal{http.StatusUnauthorized, "missing or wrong token; send admin_token or admin_read_token as a bearer token; --token-file names its file for commands"}
}

// Wrong returns what a token that is none of these should have been.
func (t *Tokens) Wrong() string {
	switch {
	case t.Made && t.File != "" && !t.Exposed:
		return "this is not the token of this instance, which is in " + t.File
	case t.Made:
		return "this is not the token that this instance has made; its log names the file"
	case t.Change != "" && t.Read != "":
		return "this is neither admin_token nor admin_read_token"
	case t.Change != "":
		return "this is not admin_token"
	case t.Read != "":
		return "this is not admin_read_token"
	}
	return "this instance has no token; set admin_token_file, or state_dir, in which it makes one"
}

// OfToken returns the level of a token that the peer of a request sends, and how long the
// peer must wait if the token was not compared, after too many wrong ones.
func (t *Tokens) OfToken(r *http.Request, token string) (Level, time.Duration) {
	index, wait := t.guesses.Try(r, token, t.Change, t.Read)
	switch index {
	case 0:
		return Change, 0
	case 1:
		return Read, 0
	}
	return None, wait
}

// isOpen reports whether everyone may read.
func (t *Tokens) isOpen() bool { return !t.Exposed && !t.Configured() }

// Configured reports whether the settings have a token that lets callers read.
func (t *Tokens) Configured() bool { return t.Read != "" || t.Change != "" && !t.Made }
