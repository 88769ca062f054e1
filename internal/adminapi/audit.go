package adminapi

import (
	"net/http"
	"unicode/utf8"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/traffic"
)

// record adds a change to the audit trail, and sends it as an event.
func (s *server) record(r *http.Request, action, detail string) {
	record(s.Trail, s.Traffic, r, action, detail)
}

// RecordModes adds changes of the modes of doors to the audit trail, and sends them as
// events. The entries end with scope, which names further instances; "" is this one alone.
func RecordModes(trail *audit.Trail, events *traffic.Recorder, r *http.Request, changes map[string]engine.Mode, scope string) {
	for _, door := range operations.DoorsOf(changes) {
		record(trail, events, r, "mode", door+" "+string(changes[door])+scope)
	}
}

func record(trail *audit.Trail, events *traffic.Recorder, r *http.Request, action, detail string) {
	change := trail.Add(r.Context(), &audit.Change{Author: authorOf(r), Peer: r.RemoteAddr, Action: action, Detail: detail})
	events.Send(traffic.EventChange, change)
}

// maxAuthor is the maximum length of an author, in bytes. Authors of versions have the same maximum.
const maxAuthor = 256

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
	return done(w, r, list)
}
