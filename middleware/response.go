package middleware

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/rules"
)

// apply sets the headers of a decision and reports whether the request may go to its
// handler. Otherwise it responds to the client.
func (s *server) apply(w http.ResponseWriter, r *http.Request, d *engine.Decision) bool {
	if d.Unavailable {
		// Without rules, nobody has decided that the requests may pass.
		passes := s.FailOpen && !errors.Is(d.Cause, engine.ErrNoRules)
		s.Logger.Debug("a request has no decision", "door", Door, "cause", d.Cause, "passes", passes)
		if !passes {
			refuse(w, r, engine.Problem(http.StatusServiceUnavailable, ""))
		}
		return passes
	}
	var buffer [16]rules.Header
	setHeaders(w.Header(), engine.Sendable(d.ClientHeaders(buffer[:0], s.Presentation)))
	switch {
	case d.Allowed():
		return true
	case s.Refuse != nil:
		s.Refuse(w, r, d)
	default:
		refuse(w, r, d.Refusal())
	}
	return false
}

// refuse responds with a refusal.
func refuse(w http.ResponseWriter, r *http.Request, refusal engine.Refusal) {
	h := w.Header()
	h.Set("Content-Type", refusal.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(refusal.Body)))
	h.Set("X-Content-Type-Options", "nosniff")
	status := door.RefusalStatus(refusal.Status)
	w.WriteHeader(status)
	if r.Method != http.MethodHead && door.HasBody(status) {
		_, _ = w.Write(refusal.Body) // fails only if the client disconnected
	}
}

// setHeaders sets headers under their canonical names, by which Go programs read
// them. Their values share one slice.
func setHeaders(h http.Header, headers []rules.Header) {
	values := make([]string, len(headers))
	for i, one := range headers {
		values[i] = one.Value
		h[canonical(one.Name)] = values[i : i+1 : i+1]
	}
}

// canonical returns the canonical name of a header. http.CanonicalHeaderKey would
// allocate for the spelling of RateLimit in the drafts.
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
