package adminapi

import (
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/traffic"
)

// Change is a change by an operator, as the audit trail has it.
type Change struct {
	At     time.Time `json:"at"`
	Author string    `json:"author"` // as the caller states it, or the name in its certificate
	Peer   string    `json:"peer"`   // the address of the caller
	Action string    `json:"action"` // such as reset
	Detail string    `json:"detail"` // what was changed
}

// maxTrail is the number of changes that the trail keeps.
const maxTrail = 1000

// trail keeps the last changes at this instance. The log has all of them.
type trail struct {
	now  func() time.Time
	mu   sync.Mutex
	list []Change // the oldest first
}

func (t *trail) add(c Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) >= maxTrail {
		t.list = slices.Delete(t.list, 0, maxTrail/10)
	}
	t.list = append(t.list, c)
}

// changes returns the changes, the latest first.
func (t *trail) changes() []Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := append([]Change{}, t.list...) // never nil: JSON would say null
	slices.Reverse(list)
	return list
}

// record logs a change and adds it to the trail.
func (s *server) record(r *http.Request, action, detail string) {
	c := Change{At: s.trail.now().UTC(), Author: authorOf(r), Peer: r.RemoteAddr, Action: action, Detail: detail}
	s.trail.add(c)
	s.Traffic.Send(traffic.EventChange, &c)
	s.Logger.Info("an operator made a change", "action", c.Action, "detail", c.Detail, "author", c.Author, "peer", c.Peer)
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

func (s *server) audit(w http.ResponseWriter, _ *http.Request) error {
	return done(w, s.trail.changes())
}
