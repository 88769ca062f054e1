package adminapi

import (
	"fmt"
	"net/http"

	"github.com/koalagate/koalagate/internal/operations"
)

func (s *server) why(w http.ResponseWriter, r *http.Request) error {
	var q operations.Question
	if err := read(w, r, &q); err != nil {
		return err
	}
	answer, err := s.Desk.Why(r.Context(), &q)
	if err != nil {
		return err
	}
	return done(w, r, answer)
}

// maxNote is the maximum length of a note about a reset, in characters.
const maxNote = 500

// Reset is the request to forget a counter.
type Reset struct {
	Rule     RuleRef             `json:"rule"`
	Identity operations.Identity `json:"identity"`
	// Handle names the identity of a masked row of top or bans at this instance. The identity may
	// then be empty, or has parameters as the row shows them.
	Handle string `json:"handle,omitempty"`
	// Note is why, for the audit trail.
	Note string `json:"note,omitempty"`
}

func (s *server) reset(w http.ResponseWriter, r *http.Request) error {
	var what Reset
	if err := read(w, r, &what); err != nil {
		return err
	}
	number, err := s.numberOf(what.Rule)
	if err != nil {
		return err
	}
	outcome, err := s.Desk.Reset(r.Context(), number, what.Identity, what.Handle)
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("rule %d, %s", outcome.Rule, outcome.Identity)
	if what.Note != "" {
		detail += fmt.Sprintf(": %.*s", maxNote, what.Note)
	}
	s.record(r, "reset", detail)
	return done(w, r, outcome)
}
