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
	return done(w, answer)
}

// Reset is the request to forget a counter.
type Reset struct {
	Rule     int64               `json:"rule"`
	Identity operations.Identity `json:"identity"`
}

func (s *server) reset(w http.ResponseWriter, r *http.Request) error {
	var what Reset
	if err := read(w, r, &what); err != nil {
		return err
	}
	outcome, err := s.Desk.Reset(r.Context(), what.Rule, what.Identity)
	if err != nil {
		return err
	}
	s.record(r, "reset", fmt.Sprintf("rule %d, %s", outcome.Rule, outcome.Identity))
	return done(w, outcome)
}
