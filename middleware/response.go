package middleware

import (
	"net/http"
	"strconv"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// carryOut tells the client of its quota, and refuses the request or tells that
// it goes on.
func (s *server) carryOut(w http.ResponseWriter, r *http.Request, d *engine.Decision) bool {
	if d.Unavailable {
		s.Logger.Debug("no store answers", "door", doorname.Middleware, "cause", d.Cause, "passes", s.FailOpen)
		if !s.FailOpen {
			problem(w, r, http.StatusServiceUnavailable, "")
		}
		return s.FailOpen
	}
	var room [16]rules.Header
	set(w.Header(), engine.Sendable(d.ClientHeaders(room[:0], s.Presentation)))
	switch {
	case d.Verdict == rules.Allow:
		return true
	case s.Refuse != nil:
		s.Refuse(w, r, d)
	default:
		refuse(w, r, d.Refusal())
	}
	return false
}

// problem refuses a request that no rule has refused.
func problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	refuse(w, r, engine.Problem(status, detail))
}

func refuse(w http.ResponseWriter, r *http.Request, refusal engine.Refusal) {
	h := w.Header()
	h.Set("Content-Type", refusal.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(refusal.Body)))
	h.Set("X-Content-Type-Options", "nosniff")
	status := refusal.Status
	if status < 200 || status > 599 {
		status = http.StatusForbidden
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = w.Write(refusal.Body) // fails only if the client has gone
	}
}

// set sets headers in the spelling that Go programs look them up by. Their
// values share one slice.
func set(h http.Header, headers []rules.Header) {
	values := make([]string, len(headers))
	for i, one := range headers {
		values[i] = one.Value
		h[canonical(one.Name)] = values[i : i+1 : i+1]
	}
}

// canonical is http.CanonicalHeaderKey, which would make the drafts' spelling of
// RateLimit anew for each answer.
func canonical(name string) string {
	switch name {
	case "RateLimit":
		return "Ratelimit"
	case "RateLimit-Policy":
		return "Ratelimit-Policy"
	case "RateLimit-Limit":
		return "Ratelimit-Limit"
	case "RateLimit-Remaining":
		return "Ratelimit-Remaining"
	case "RateLimit-Reset":
		return "Ratelimit-Reset"
	}
	return http.CanonicalHeaderKey(name)
}
