package middleware

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

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
	setHeaders(w.Header(), door.Sendable(d.ClientHeaders(buffer[:0], s.Presentation)))
	switch {
	case d.Allowed():
		if marks := d.Answers[0].Marks(); marks != nil {
			r.Header.Set(engine.HeaderMark, strings.Join(marks, ", "))
		}
		return true
	case s.Refuse != nil:
		own := &refusing{ResponseWriter: w, decision: d}
		s.Refuse(own, r, d)
		own.implicit()
	default:
		refuse(w, r, d.Refusal())
	}
	return false
}

// refusing writes the response of Options.Refuse. A refusal must not be a 200 by default,
// so without another status it has the status of the decision.
type refusing struct {
	http.ResponseWriter
	decision *engine.Decision
	written  bool // the header
}

// implicit writes the header if nobody has.
func (w *refusing) implicit() {
	if !w.written {
		w.WriteHeader(door.RefusalStatus(w.decision.Refusal().Status))
	}
}

// WriteHeader writes the header. Informational responses precede it.
func (w *refusing) WriteHeader(status int) {
	w.written = w.written || status >= http.StatusOK || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *refusing) Write(b []byte) (int, error) {
	w.implicit()
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written.
func (w *refusing) Flush() {
	w.implicit()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // not supported: it is sent later
}

// Hijack lets Refuse take over the connection.
func (w *refusing) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.written = w.written || err == nil
	return conn, buffer, err
}

// Unwrap returns the writer of the server, for http.ResponseController.
func (w *refusing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
