package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/internal/trial"
)

// Trials are the trials of an instance.
type Trials interface {
	// Report returns the running trial, or the last one. The error is trial.ErrNone if
	// there was none.
	Report(ctx context.Context) (*trial.Report, error)
	// Stop ends the running trial and returns it. The error is trial.ErrNone if none runs.
	Stop(ctx context.Context) (*trial.Report, error)
}

// tried are the routes about trials.
var tried = []route{
	{http.MethodGet, "trial", access.Read, light, (*server).trial},
	{http.MethodDelete, "trial", access.Change, light, (*server).stopTrial},
}

func (s *server) trial(w http.ResponseWriter, r *http.Request) error {
	report, err := s.Trials.Report(r.Context())
	if err != nil {
		return trialProblem(err)
	}
	return done(w, r, report)
}

func (s *server) stopTrial(w http.ResponseWriter, r *http.Request) error {
	report, err := s.Trials.Stop(r.Context())
	if err != nil {
		return trialProblem(err)
	}
	s.record(r, "trial stop", fmt.Sprintf("version %d, %.12s, after %s", report.Version, report.Hash, printable.Count(report.Requests, "request")))
	return done(w, r, report)
}

// trialProblem returns the problem behind an error of trials.
func trialProblem(err error) error {
	if errors.Is(err, trial.ErrNone) {
		return problem(http.StatusNotFound, "%v", err)
	}
	return err
}
