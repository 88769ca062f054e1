package ruletest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/rules"
)

// Result is the result of a case file.
type Result struct {
	Path string
	// Err reports that the rules could not be loaded, or lack what the cases name. There are no
	// cases then.
	Err   error
	Cases []CaseResult
}

// problem describes in words what Err reports.
func (r *Result) problem() string {
	var names *unknownNames
	if errors.As(r.Err, &names) {
		return "the rules lack what the cases name"
	}
	return "the rules cannot be loaded"
}

// unknownNames reports names of cases that the rules do not declare.
type unknownNames struct{ error }

// CaseResult is the result of a case.
type CaseResult struct {
	Name    string
	Line    int
	Took    time.Duration // of real time
	Failure *Failure      // nil for a case that passed
}

// Failure is the first step of a case that did not have the expected answer.
type Failure struct {
	Step   int // from 1
	Line   int
	Call   int       // which of the calls of the step, from 1
	Calls  int       // how often the step makes the call
	At     time.Time // in the zone of the rule set
	Err    error     // the step could not be carried out; the rest is then empty
	Wrong  []Difference
	Report *explain.Report // explains the answer
}

// Difference is an expectation that an answer does not meet.
type Difference struct{ Field, Want, Got string }

// Failed returns the number of cases that failed, or 1 if the rules could not be loaded.
func (r *Result) Failed() int {
	if r.Err != nil {
		return 1
	}
	n := 0
	for i := range r.Cases {
		if r.Cases[i].Failure != nil {
			n++
		}
	}
	return n
}

// Run runs the cases of a file. The error comes from ctx.
func (f *File) Run(ctx context.Context) (*Result, error) {
	result := &Result{Path: f.Path}
	signing := newIssuers(f)
	files := reload.Files{Paths: f.Rules, DictRoot: f.DictRoot, Rules: rules.Options{Timezone: f.Timezone, OpenToken: signing.open}}
	set, findings, err := files.Load()
	switch {
	case err != nil:
	case findings.HasErrors():
		err = findings
	default:
		signing.zone = set.Zone
		if err = f.checkNames(set); err != nil {
			err = &unknownNames{err}
		}
	}
	if err != nil {
		result.Err = err
		return result, nil //nolint:nilerr // the error is the result of the file
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		begin := time.Now()
		failure, err := c.run(ctx, set, signing)
		if err != nil {
			return nil, err
		}
		result.Cases = append(result.Cases, CaseResult{c.Name, c.Line, time.Since(begin), failure})
	}
	return result, nil
}

// run runs a case with counters of its own. The failure is nil if it passed.
func (c *Case) run(ctx context.Context, set *rules.Set, signing *issuers) (failure *Failure, err error) {
	counters, err := sandbox.Open(set, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, counters.Close(ctx)) }()
	now, err := rules.ParseTime(c.Start, set.Zone)
	if err != nil {
		return &Failure{Step: 1, Line: c.Line, Err: fmt.Errorf("invalid start %q: %w", c.Start, err)}, nil
	}
	known := make(receipts)
	for i := range c.Steps {
		s := &c.Steps[i]
		if now, err = s.time(now, set); err != nil {
			return &Failure{Step: i + 1, Line: s.Line, At: now, Err: err}, nil
		}
		signing.now = now
		failure := s.run(ctx, set, counters, known, signing)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failure != nil {
			failure.Step, failure.Line, failure.At, failure.Calls = i+1, s.Line, now, s.Times
			return failure, nil
		}
	}
	return nil, nil //nolint:nilnil // a case that passed
}

// time returns the time of a step that follows one at before.
func (s *Step) time(before time.Time, set *rules.Set) (time.Time, error) {
	if s.At == "" {
		return before.Add(s.After), nil
	}
	at, err := rules.ParseTime(s.At, set.Zone)
	switch {
	case err != nil:
		return before, fmt.Errorf("invalid at %q: %w", s.At, err)
	case at.Before(before):
		return before, fmt.Errorf("at %s is before the previous step, which is at %s", s.At, before.Format(time.DateTime))
	}
	return at, nil
}

// run makes the calls of a step. It returns the first that fails, nil if all succeed.
// All expectations hold for the last call; the verdict holds for every call.
func (s *Step) run(ctx context.Context, set *rules.Set, counters *sandbox.Sandbox, known receipts, signing *issuers) *Failure {
	now := signing.now
	if s.OnReceipt != "" {
		return s.operate(ctx, counters, known, now)
	}
	ask, err := signing.ask(s)
	if err != nil {
		return &Failure{Err: err}
	}
	question, err := explain.New(ask)
	if err != nil {
		return &Failure{Err: err}
	}
	for call := 1; call <= s.Times; call++ {
		report, d, err := question.Ask(ctx, set, counters, s.Op, now.UnixMilli())
		if err != nil {
			return &Failure{Call: call, Err: err}
		}
		wrong := differences(s.Wants, answerOf(report, d), call == s.Times)
		if len(wrong) > 0 {
			return &Failure{Call: call, Wrong: wrong, Report: report}
		}
		if err := s.follow(ctx, counters, known, d, now); err != nil {
			return &Failure{Call: call, Err: err}
		}
	}
	return nil
}

// differences compares an answer with expectations: all, or only the verdict.
func differences(wants []Want, got *answer, all bool) []Difference {
	var list []Difference
	for _, w := range wants {
		if !all && w.Field != "verdict" {
			continue
		}
		if text, ok := got.meets(w); !ok {
			list = append(list, Difference{w.Field, w.Value, text})
		}
	}
	return list
}

// answer is the answer to a call.
type answer struct {
	report   *explain.Report
	decision *engine.Decision // nil if the request was refused before any rule
	headers  []rules.Header
}

func answerOf(report *explain.Report, d *engine.Decision) *answer {
	a := &answer{report: report, decision: d}
	if d == nil || d.Answers[0].Result == nil {
		return a
	}
	a.headers = d.ClientHeaders(nil, engine.Presentation{})
	if d.Verdict != rules.Allow && a.header("Content-Type") == absent {
		a.headers = append(a.headers, rules.Header{Name: "Content-Type", Value: d.Refusal().ContentType})
	}
	return a
}
