package adminapi

import (
	"net/http"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/traffic"
)

// record adds a change to the audit trail, and sends it as an event.
func (s *server) record(r *http.Request, action, detail string) {
	c := s.Trail.Add(r.Context(), &audit.Change{Author: authorOf(r), Peer: r.RemoteAddr, Action: action, Detail: detail})
	s.Traffic.Send(traffic.EventChange, c)
}

// maxAuthor is the maximum length of an author, in bytes.
const maxAuthor = 100

// authorOf returns the author of a change: the name in the caller's certificate, else
// what the caller states, else unknown.
func authorOf(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != "" {
			return name
		}
	}
	author := r.Header.Get(AuthorHeader)
	if author == "" || len(author) > maxAuthor || !utf8.ValidString(author) {
		return "unknown"
	}
	return author
}

// audit answers with the last changes.
func (s *server) audit(w http.ResponseWriter, r *http.Request) error {
	list, isFleet := s.Trail.Changes(r.Context())
	stateScope(w, isFleet)
	return done(w, list)
}
