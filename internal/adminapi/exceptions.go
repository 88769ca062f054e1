package adminapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/operations"
)

// maxExceptionsBody is the maximum size of a request that adds exceptions, in bytes.
const maxExceptionsBody = 64 << 20

// Additions is the request to add exceptions, all or none. Their IDs are ignored.
type Additions struct {
	Exceptions []exceptions.Exception `json:"exceptions"`
}

func (s *server) exceptions(w http.ResponseWriter, _ *http.Request) error {
	return done(w, s.Exceptions.List())
}

func (s *server) addExceptions(w http.ResponseWriter, r *http.Request) error {
	var what Additions
	if err := readUpTo(maxExceptionsBody, w, r, &what); err != nil {
		return err
	}
	for i := range what.Exceptions {
		what.Exceptions[i].Author = authorOf(r)
	}
	added, err := s.Exceptions.Add(r.Context(), what.Exceptions)
	if err != nil {
		return exceptionProblem(err)
	}
	for i := range added {
		s.record(r, "exception add", exceptionText(&added[i]))
	}
	return done(w, added)
}

func (s *server) removeException(w http.ResponseWriter, r *http.Request) error {
	removed, err := s.Exceptions.Remove(r.Context(), r.PathValue("id"))
	if err != nil {
		return exceptionProblem(err)
	}
	s.record(r, "exception remove", exceptionText(removed))
	return done(w, removed)
}

// exceptionText describes an exception for the audit trail.
func exceptionText(x *exceptions.Exception) string {
	text := fmt.Sprintf("%s: rule %d, %s: %s", x.ID, x.Rule, operations.Identity(x.Identity), x.What)
	if x.What == exceptions.Count {
		text += fmt.Sprintf(" %d", x.Count)
	}
	return text + " until " + x.Until.Format("2006-01-02T15:04:05Z07:00")
}

// exceptionProblem returns the problem behind an error of the keeper.
func exceptionProblem(err error) error {
	var invalid exceptions.InvalidError
	var conflict *exceptions.ConflictError
	switch {
	case errors.As(err, &invalid):
		return problem(http.StatusBadRequest, "%v", err)
	case errors.As(err, &conflict):
		return problem(http.StatusConflict, "%v", err)
	case errors.Is(err, exceptions.ErrFull):
		return problem(http.StatusInsufficientStorage, "%v", err)
	case errors.Is(err, exceptions.ErrUnknown):
		return problem(http.StatusNotFound, "%v", err)
	}
	return err
}
