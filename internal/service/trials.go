package service

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/app"
	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

const (
	// trialInterval is the time between two reports about a running trial.
	trialInterval = time.Second
	// keepInterval is the time after which the counters of a trial are kept again, for which
	// TrialCounters.Keep has ten seconds.
	keepInterval = 2 * time.Second
)

// trials runs the trial of this instance, one at a time.
type trials struct {
	s        *Service
	observer atomic.Pointer[observer] // of current; nil without one
	slow     *loglimit.Warner
	changed  chan struct{} // wanted changed

	// changing is held while a trial begins, ends or is reported, which may wait for Redis,
	// so that nothing follows the report of its end.
	changing sync.Mutex

	mu      sync.Mutex
	current *runningTrial // nil without one
	wanted  *fleet.Tried  // the published version on trial, nil for none
	last    *trial.Report // of the last one that ended here; nil for none
	past    whatif.Totals // of all that ended here
}

// runningTrial is a trial with its counters.
type runningTrial struct {
	head     trial.Report // without counts
	trial    *trial.Trial
	counters *app.TrialCounters
	reported whatif.Totals
	tried    candidates
	space    string
}

func newTrials(s *Service) *trials {
	return &trials{s: s, slow: &loglimit.Warner{Logger: s.logger}, changed: make(chan struct{}, 1)}
}

// open begins the trial of the configured files, if there are any, and follows their
// changes.
func (r *trials) open() error {
	c := r.s.config
	r.s.onClose(func() { r.end(trial.Ended, "the instance ended") })
	r.s.metrics.WatchTrial(r.counts)
	r.s.work(r.watch)
	if r.s.app.Member() != nil {
		r.s.work(r.follow)
	}
	if len(c.Trial) == 0 {
		return nil
	}
	return r.openFiles(c.Trial)
}

// candidates are what is on trial.
type candidates struct {
	rules *rules.Set
	// limits are limits of envoyproxy/ratelimit; nil for none. LimitsOnly leaves rules aside.
	limits     *envoylimits.Set
	limitsOnly bool
}

// begin ends the current trial and begins another one, with its counters in a space.
func (r *trials) begin(head *trial.Report, tried candidates, space string, until time.Time) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.replace(head, tried, space, until)
}

// replace is begin for callers that hold r.changing.
func (r *trials) replace(head *trial.Report, tried candidates, space string, until time.Time) error {
	r.endCurrent(trial.Ended, "another trial began")
	counters, err := r.s.app.OpenTrial(space, until)
	if err != nil {
		return fmt.Errorf("cannot open the counters of a trial: %w", err)
	}
	own := &observer{rules: tried.rules, mapping: r.s.mappingOptions()}
	own.mapping.Exceeded = nil // counted by the rules in force
	r.s.keys.Use(keyset.OnTrial, tried.rules)
	r.s.keys.Await()
	o := trial.Options{
		Set: tried.rules, Derive: own.derive, Counters: counters.Store, Copy: counters.Copy, Links: counters.Links, Workers: counters.Workers,
		Mask: r.s.decisions.mask.Value, MaxRules: r.s.config.MaxRules, Exceptions: r.s.exceptions.Engine(),
		RulesBeside: len(r.s.config.Rules) > 0,
	}
	line := []any{"version", head.Version, "hash", head.Hash, "rules", len(tried.rules.Rules)}
	if tried.limits != nil {
		o.Source, o.LimitsOnly = ratelimit.OnTrial(r.s.imported.Limits, tried.limits), tried.limitsOnly
		line = append(line, "limits", len(tried.limits.Limits()))
	}
	next := &runningTrial{head: *head, counters: counters, trial: trial.Start(o), tried: tried, space: space}
	next.head.State = trial.Running
	if next.head.Began.IsZero() {
		next.head.Began = time.Now().UTC()
	}
	r.mu.Lock()
	r.current = next
	r.mu.Unlock()
	own.trial = next.trial
	r.observer.Store(own)
	r.s.logger.Info("a trial began", line...)
	r.s.traffic.SendState(traffic.EventTrial, next.report())
	return nil
}

// keep keeps the counters of the current trial, which instances share that try the same files. If the
// others have begun with other counters while Redis was out of reach, the trial begins anew with these.
func (r *trials) keep(ctx context.Context) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	if current == nil {
		return
	}
	same, err := current.counters.Keep(ctx)
	if err == nil && !same {
		err = r.replace(&trial.Report{Hash: current.head.Hash}, current.tried, current.space, time.Time{}) //nolint:contextcheck // the counters are opened although the service closes
	}
	if err != nil && ctx.Err() == nil {
		r.slow.Warn("a trial may not share its counters with other instances", "hash", current.head.Hash, "error", err)
	}
}

// observer passes calls on to a trial, with the requests from which its rules derive other parameters.
type observer struct {
	trial   *trial.Trial
	rules   *rules.Set
	mapping mapping.Options
	// compared is the result of the last comparison with rules in force.
	compared atomic.Pointer[comparison]
}

type comparison struct {
	inForce   *rules.Set
	otherwise bool
}

// derivesOtherwise reports whether the rules on trial derive other parameters than those in force.
func (o *observer) derivesOtherwise(inForce *rules.Set) bool {
	last := o.compared.Load()
	if last == nil || last.inForce != inForce {
		last = &comparison{inForce, rules.DerivesOtherwise(inForce, o.rules)}
		o.compared.Store(last)
	}
	return last.otherwise
}

// derive is a function for trial.Options.Derive. Requests that arrived before the trial began are
// not known.
func (o *observer) derive(c *engine.Call, input int) (derive func(*rules.Params) error, known bool) {
	if c.Rules == nil || c.Fault != nil || !o.derivesOtherwise(c.Rules) {
		return nil, true
	}
	var request *mapping.Request
	if in := &c.Inputs[input]; in.Sourced {
		request = descriptorOf(c.Door, in.Params)
	} else if q, ok := c.Origin.(*door.Question); !ok {
		return nil, true
	} else if request = q.Kept(input, o.rules); request == nil {
		return nil, false
	}
	return func(p *rules.Params) error {
		own := o.mapping
		own.Tokens = new([]mapping.Token) // verified, and not counted
		return mapping.Params(o.rules, request, &own, p)
	}, true
}

// descriptorOf returns the request of an input that limits decide: its domain and entries.
func descriptorOf(at string, p *rules.Params) *mapping.Request {
	r := &mapping.Request{Door: at}
	for _, entry := range p.List() {
		if entry.Name == "domain" {
			r.Domain = strings.Clone(entry.Value)
		} else {
			r.Entries = append(r.Entries, mapping.Entry{Key: strings.Clone(entry.Name), Value: strings.Clone(entry.Value)})
		}
	}
	return r
}

// report returns the trial with its findings so far.
func (t *runningTrial) report() *trial.Report {
	report := t.head
	report.Found = t.trial.Found()
	return &report
}

// end ends the current trial, and reports whether one ran.
func (r *trials) end(state, detail string) bool {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.endCurrent(state, detail)
}

// endCurrent is end for callers that hold r.changing. The trial stays the current one until
// its counts are among the past ones, so that the metrics never go back.
func (r *trials) endCurrent(state, detail string) bool {
	r.mu.Lock()
	last := r.current
	r.mu.Unlock()
	if last == nil {
		return false
	}
	r.observer.Store(nil)
	last.trial.Close()
	r.s.keys.Use(keyset.OnTrial, nil)
	r.tally(last)
	report := last.report()
	report.State, report.Detail = state, detail
	r.mu.Lock()
	r.current, r.last = nil, report
	r.past.Add(&report.Totals)
	r.mu.Unlock()
	if err := last.counters.Close(); err != nil {
		r.s.logger.Debug("closing the counters of a trial", "error", err)
	}
	r.s.logger.Info("a trial ended", "version", report.Version, "state", state, "detail", detail, "requests", report.Requests,
		"dropped", report.Dropped, "newly_refused", report.NewlyRefused, "newly_allowed", report.NewlyAllowed)
	r.s.traffic.SendState(traffic.EventTrial, report)
	return true
}

// Report returns the running trial, or else the last one: with published rules the trial
// of all instances, otherwise the trial of this instance.
func (r *trials) Report(ctx context.Context) (*trial.Report, error) {
	if r.s.app.Member() != nil {
		return r.published(ctx)
	}
	r.mu.Lock()
	current, last := r.current, r.last
	r.mu.Unlock()
	switch {
	case current != nil:
		return current.report(), nil
	case last != nil:
		return last, nil
	}
	return nil, trial.ErrNone
}

// Stop ends the trial. The error is trial.ErrNone if none runs.
func (r *trials) Stop(ctx context.Context) (*trial.Report, error) {
	if r.s.app.Member() != nil {
		return r.stopPublished(ctx)
	}
	if !r.end(trial.Ended, "an operator stopped it") { //nolint:contextcheck // the last tally is written although the caller has left
		return nil, trial.ErrNone
	}
	return r.Report(ctx)
}

// counts returns the counts of all trials of this instance, for metrics.
func (r *trials) counts() metrics.Trial {
	r.mu.Lock()
	all, current := r.past, r.current
	r.mu.Unlock()
	if current != nil {
		now := current.trial.Totals()
		all.Add(&now)
	}
	return metrics.Trial{Running: current != nil, Requests: all.Requests, Dropped: all.Dropped, NewlyRefused: all.NewlyRefused, NewlyAllowed: all.NewlyAllowed}
}

// watch reports the trial until ctx is done: in events, to the other instances, and in the
// log if it dropped calls.
func (r *trials) watch(ctx context.Context) {
	delay.Every(ctx, trialInterval, nil, r.reportCurrent)
}

// reportCurrent reports the current trial if its counts have changed. It leaves a trial that
// begins or ends to begin and end.
func (r *trials) reportCurrent() {
	if !r.changing.TryLock() {
		return
	}
	defer r.changing.Unlock()
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	if current == nil {
		return
	}
	now := current.trial.Totals()
	if now == current.reported {
		return
	}
	if now.Dropped > current.reported.Dropped {
		r.slow.Warn("a trial left out calls; it is slower than the traffic, or its counters do not answer", "version", current.head.Version, "dropped", now.Dropped, "requests", now.Requests)
	}
	current.reported = now
	r.tally(current)
	r.s.traffic.SendState(traffic.EventTrial, current.report())
}

// settling returns hooks that call settled and renewed, and pass known receipts on to the
// trial.
func (r *trials) settling(settled, renewed func(*engine.Settlement, engine.Settled, error)) (s, n func(*engine.Settlement, engine.Settled, error)) {
	with := func(f func(*engine.Settlement, engine.Settled, error), follow func(*trial.Trial, *engine.Settlement)) func(*engine.Settlement, engine.Settled, error) {
		return func(settlement *engine.Settlement, got engine.Settled, err error) {
			f(settlement, got, err)
			if o := r.observer.Load(); o != nil && err == nil && got.Known {
				follow(o.trial, settlement)
			}
		}
	}
	return with(settled, (*trial.Trial).Settle), with(renewed, (*trial.Trial).Renew)
}
