package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/pace"
)

// Additions is the request to add exceptions, all or none. Without a signature, their IDs
// and authors are ignored.
type Additions struct {
	Exceptions []Addition `json:"exceptions"`
	// ForMS is the time until their end in ms, instead of Until: it is added to the clock by
	// which they end, because the caller's clock may be wrong by minutes. 0 for their Until.
	ForMS int64 `json:"for_ms,omitempty"`
}

// Addition is an exception to add.
type Addition struct {
	Rule RuleRef `json:"rule"` // stands for the number in the exception
	exceptions.Exception
}

// Adding returns the addition of an exception.
func Adding(x *exceptions.Exception) Addition { return Addition{RefTo(x.Rule), *x} }

// Prepared are exceptions as they would be added, to be signed.
type Prepared struct {
	Prefix     string                 `json:"prefix"` // redis_prefix, which signatures cover
	Exceptions []exceptions.Exception `json:"exceptions"`
}

func (s *server) prepareExceptions(w http.ResponseWriter, r *http.Request) error {
	asked, err := s.readAdditions(w, r)
	if err != nil {
		return err
	}
	for i := range asked {
		if asked[i].Handle != "" {
			return problem(http.StatusBadRequest, "a signature covers the values of an identity, which a handle does not show; name the values themselves")
		}
	}
	if err := s.resolveHandles(r.Context(), asked); err != nil {
		return err
	}
	list, err := s.Exceptions.Prepare(r.Context(), asked)
	if err != nil {
		return exceptionProblem(err)
	}
	return done(w, r, &Prepared{s.Exceptions.Prefix(), list})
}

// readAdditions reads a request with exceptions, finds their rules, and sets their authors and ends
// unless they are signed.
func (s *server) readAdditions(w http.ResponseWriter, r *http.Request) ([]exceptions.Exception, error) {
	what := new(Additions)
	if err := s.readLong(w, r, what); err != nil {
		return nil, err
	}
	if most := exceptions.MaxSpan.Milliseconds(); what.ForMS < 0 || what.ForMS > most {
		return nil, problem(http.StatusBadRequest, "for_ms is %d; want 1 … %d, which is 31 days", what.ForMS, most)
	}
	end := s.Exceptions.Now().Add(time.Duration(what.ForMS) * time.Millisecond)
	list := make([]exceptions.Exception, len(what.Exceptions))
	numbers := make(map[RuleRef]int64)
	for i := range what.Exceptions {
		if err := pace.Step(r.Context()); err != nil {
			return nil, err
		}
		asked, x := &what.Exceptions[i], &list[i]
		number, known := numbers[asked.Rule]
		if !known {
			var err error
			if number, err = s.numberOf(asked.Rule); err != nil {
				return nil, entryProblem(i, err)
			}
			numbers[asked.Rule] = number
		}
		*x = asked.Exception
		x.Rule = number
		switch {
		case x.Signature == "":
			x.Author = authorOf(r)
		case what.ForMS != 0:
			return nil, problem(http.StatusBadRequest, "for_ms is set for a signed exception, whose signature covers its end")
		}
		if what.ForMS != 0 {
			x.Until = end
		}
	}
	return list, nil
}

// entryProblem is the problem of an error about the exception with an index.
func entryProblem(index int, err error) *Problem {
	p := problemOf(err)
	p.Entry = index + 1
	return p
}

// exceptions answers with the exceptions that the query selects.
func (s *server) exceptions(w http.ResponseWriter, r *http.Request) error {
	f, err := s.exceptionFilter(r.URL.Query())
	if err != nil {
		return problem(http.StatusBadRequest, "%v", err)
	}
	list, err := s.Exceptions.Find(r.Context(), f)
	if err != nil {
		return exceptionProblem(err)
	}
	if len(list) == 0 {
		if err := s.checkRule(f.Rule); err != nil {
			return err
		}
	}
	return done(w, r, list)
}

// exceptionFilter reads the filter of a query.
func (s *server) exceptionFilter(query url.Values) (f exceptions.Filter, err error) {
	if err := onlyParameters(query, "rule", "search", "limit"); err != nil {
		return f, err
	}
	if f.Rule, err = s.ruleOf(query); err != nil {
		return f, err
	}
	f.Words = strings.Fields(query.Get("search"))
	if text := query.Get("limit"); text != "" {
		if f.Most, err = strconv.Atoi(text); err != nil || f.Most < 1 {
			return f, fmt.Errorf("limit is %.40q; want a number of exceptions", text)
		}
	}
	return f, nil
}

func (s *server) addExceptions(w http.ResponseWriter, r *http.Request) error {
	asked, err := s.readAdditions(w, r)
	if err != nil {
		return err
	}
	if err := s.resolveHandles(r.Context(), asked); err != nil {
		return err
	}
	added, err := s.Exceptions.Add(r.Context(), asked)
	if err != nil {
		return exceptionProblem(err)
	}
	for i := range added[:min(len(added), maxRecorded)] {
		shown := s.Exceptions.Shown(&added[i])
		s.record(r, "exception add", exceptionText(&shown))
	}
	if n := len(added); n > maxRecorded {
		s.record(r, "exception add", fmt.Sprintf("%d exceptions in one request; the first %d are above", n, maxRecorded))
	}
	if err := s.liftBans(r, added); err != nil {
		return err
	}
	for i := range added {
		if err := pace.Step(r.Context()); err != nil {
			return err
		}
		added[i] = s.answered(&added[i])
	}
	return done(w, r, added)
}

// resolveHandles sets the identities of exceptions that handles name. The error is a Problem about
// one of them, or comes from ctx.
func (s *server) resolveHandles(ctx context.Context, list []exceptions.Exception) error {
	for i := range list {
		if err := pace.Step(ctx); err != nil {
			return err
		}
		x := &list[i]
		identity, masked, err := s.Desk.Named(x.Handle, x.Identity)
		if err == nil && x.Handle != "" && x.Signature != "" {
			err = errors.New("a signed exception has a handle, which no signature covers")
		}
		if err != nil {
			return entryProblem(i, problem(http.StatusBadRequest, "%v", err))
		}
		if x.Identity = identity; x.Handle != "" {
			x.Masked = masked
		}
	}
	return nil
}

// answered returns an exception as the answer to its change shows it: with a handle if values are
// masked, by which it can be added again.
func (s *server) answered(x *exceptions.Exception) exceptions.Exception {
	shown := s.Exceptions.Shown(x)
	shown.Handle = s.Desk.HandleOf(x.Identity, shown.Identity)
	return shown
}

// liftBans ends what rules with ban= have opened for the identities of bans from everything, so that
// with the end of such a ban everything is over. Nothing is counted for them meanwhile.
func (s *server) liftBans(r *http.Request, list []exceptions.Exception) error {
	for i := range list {
		x := &list[i]
		if x.What != exceptions.Ban {
			continue
		}
		lifted, err := s.Desk.Lift(r.Context(), x.Identity, 0)
		for j := range lifted {
			s.record(r, "reset", LiftedText(s.Desk, &lifted[j], x))
		}
		if err != nil {
			return fmt.Errorf("the exception has changed, but the bans of rules for its identity may go on; reset their counters: %w", err)
		}
	}
	return nil
}

// LiftedText is the detail, for the audit trail, of a ban by a rule that is over with an exception.
func LiftedText(desk *operations.Desk, one *operations.Named, x *exceptions.Exception) string {
	return fmt.Sprintf("rule %d, %s: its ban is over with exception %s", one.Rule, desk.Hide(one.Identity, x.Masked), x.ID)
}

// bans answers with the bans that rules have opened.
func (s *server) bans(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Desk.Bans(r.Context())
	if err != nil {
		return err
	}
	return done(w, r, list)
}

func (s *server) removeException(w http.ResponseWriter, r *http.Request) error {
	removed, err := s.Exceptions.Remove(r.Context(), r.PathValue("id"))
	if err != nil {
		return exceptionProblem(err)
	}
	shown := s.answered(removed)
	s.record(r, "exception remove", exceptionText(&shown))
	if err := s.liftBans(r, []exceptions.Exception{*removed}); err != nil {
		return err
	}
	return done(w, r, &shown)
}

// maxRecorded is the number of exceptions of a request that the audit trail has one by
// one. The list of exceptions has all with their authors.
const maxRecorded = 100

// exceptionText describes an exception for the audit trail.
func exceptionText(x *exceptions.Exception) string {
	text := fmt.Sprintf("%s: %s, %s: %s", x.ID, x.Target(), operations.Identity(x.Identity), x.What)
	if x.What == exceptions.Count {
		text += fmt.Sprintf(" %d", x.Count)
	}
	return text + " until " + x.Until.Format("2006-01-02T15:04:05Z07:00")
}

// exceptionProblem returns the problem behind an error of the keeper.
func exceptionProblem(err error) error {
	var of *exceptions.EntryError
	if errors.As(err, &of) {
		return entryProblem(of.Index, exceptionProblem(of.Unwrap()))
	}
	var invalid exceptions.InvalidError
	var conflict *exceptions.ConflictError
	switch {
	case errors.As(err, &invalid):
		return problem(http.StatusBadRequest, "%v", err)
	case errors.As(err, &conflict):
		return problem(http.StatusConflict, "%v", err)
	case errors.Is(err, exceptions.ErrFull):
		return problem(http.StatusInsufficientStorage, "%v", err)
	case errors.Is(err, exceptions.ErrUnsigned):
		return problem(http.StatusForbidden, "%v", err)
	case errors.Is(err, exceptions.ErrUnknown):
		return problem(http.StatusNotFound, "%v", err)
	}
	return err
}
