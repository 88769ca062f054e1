package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Question asks why a request or an identity is limited. Without Request, Params name an
// identity.
type Question struct {
	// Params are the parameters of an identity or, with Request, the parameters that the
	// gateway's configuration adds.
	Params Identity `json:"params,omitempty"`
	// Request is the request of a client as its gateway describes it; nil for none.
	Request *Request `json:"request,omitempty"`
}

// Request is a request of a client at a door.
type Request struct {
	Door    string              `json:"door,omitempty"` // extauthz by default
	Method  string              `json:"method,omitempty"`
	Target  string              `json:"target,omitempty"` // a path or a URL
	Headers map[string][]string `json:"headers,omitempty"`
	Peer    string              `json:"peer,omitempty"` // the client's address as the gateway sees it
}

// Why reports why a request or an identity is limited. docs/formats.md describes its
// JSON document.
type Why struct {
	Verdict  string    `json:"verdict"`
	Decider  int64     `json:"decider"` // the number of the rule that decides; 0 for none
	Rules    []WhyRule `json:"rules"`
	Refusals []Refusal `json:"refusals"` // the last ones at this instance, the latest first
	// WaitMS is the time for which the request would wait for its turn, by rules with
	// wait=. It is 0 without a request.
	WaitMS int64 `json:"wait_ms"`
	// Degraded reports that Redis is unavailable, so that the counters are those of
	// this instance.
	Degraded bool `json:"degraded"`
	// Refused is the reason for which the request is refused before any rule.
	Refused string `json:"refused,omitempty"`
	// Status is the status of HTTP with which a gateway refuses the request; 0 if it
	// passes, or without a request.
	Status int64 `json:"status,omitempty"`
	// Headers are those that the client would get with the answer to the request.
	Headers []Header `json:"headers,omitempty"`
}

// Header is a header of an answer.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// WhyRule is a rule that the request meets or that counts by the identity.
type WhyRule struct {
	Rule      int64    `json:"rule"`
	Name      string   `json:"name,omitempty"`
	Matched   bool     `json:"matched"` // whether requests of the question meet the rule
	Why       string   `json:"why"`     // why they do not, or what the rule does
	Identity  Identity `json:"identity,omitempty"`
	Limit     int64    `json:"limit"`
	Used      int64    `json:"used"`
	Remaining int64    `json:"remaining"`
	ResetMS   int64    `json:"reset_ms"`
	RetryMS   int64    `json:"retry_ms"` // 0 if another hit fits now, negative if none ever does
	BannedMS  int64    `json:"banned_ms"`
	Leased    int64    `json:"leased,omitempty"` // hits in Used that other instances hold in advance and may not have spent
	// Exception is the ID of the exception that applies, "" for none.
	Exception string `json:"exception,omitempty"`
	// Counted reports that the counter was read; otherwise the numbers are 0.
	Counted bool `json:"counted"`

	match *rules.Match
	kind  engine.ExceptionKind // of the exception
}

// decides reports whether the rule decides about another hit.
func (w *WhyRule) decides() bool {
	switch {
	case !w.Matched || w.match.Rule.Shadow || w.kind == engine.ExceptAllow:
		return false
	case w.kind == engine.ExceptDeny || !w.match.Rule.Counts():
		return true
	}
	return w.RetryMS != 0
}

// Why answers a question. The error is an InputError, or an error of the counters.
func (d *Desk) Why(ctx context.Context, q *Question) (*Why, error) {
	set := d.engine.Rules()
	if q.Request != nil {
		return d.whyRequest(ctx, set, q)
	}
	if len(q.Params) == 0 {
		return nil, invalid("no question; want a request, or parameters such as uid=ann")
	}
	params := rules.MakeParams(q.Params)
	w := &Why{Verdict: rules.Allow.String(), Rules: whyIdentity(set, params, d.engine.Now())}
	if err := d.read(ctx, w); err != nil {
		return nil, err
	}
	for i := range w.Rules {
		r := &w.Rules[i]
		if r.decides() {
			w.Verdict, w.Decider = r.match.Rule.Result.Verdict().String(), r.Rule
			break
		}
	}
	return w, nil
}

// whyRequest answers a question about a request.
func (d *Desk) whyRequest(ctx context.Context, set *rules.Set, q *Question) (*Why, error) {
	question, err := d.explained(q)
	if err != nil {
		return nil, InputError{err}
	}
	params, err := question.Params(set)
	var refusal *mapping.Refusal
	if errors.As(err, &refusal) {
		return &Why{Verdict: rules.Deny.String(), Refused: refusal.Reason, Status: int64(refusal.Status), Rules: []WhyRule{}, Refusals: []Refusal{}}, nil
	}
	if err != nil {
		return nil, InputError{err}
	}
	decision, err := d.engine.Decide(ctx, &engine.Call{
		Rules: set, Op: engine.Browse, Patience: engine.MaxWait, TellWait: true, Unobserved: true, Inputs: []engine.Input{{Params: params}},
	})
	switch {
	case err != nil:
		return nil, err
	case decision.Unavailable:
		return nil, errors.Join(errors.New("no store answered"), decision.Cause)
	}
	w := &Why{Verdict: decision.Verdict.String(), WaitMS: milliseconds(decision.Wait), Rules: whyMatches(set, params, d.engine.Now())}
	if decider := decision.Answers[0].Decider; decider != nil {
		w.Decider = decider.Return
	}
	if decision.Verdict != rules.Allow {
		w.Status = int64(decision.Refusal().Status)
	}
	for _, h := range decision.ClientHeaders(nil, d.presentation) {
		w.Headers = append(w.Headers, Header(h))
	}
	return w, d.read(ctx, w)
}

// explained returns the question about a request, or about parameters alone, in terms of
// package explain.
func (d *Desk) explained(q *Question) (*explain.Question, error) {
	r := q.Request
	if r == nil {
		return explain.New(explain.Options{Params: entriesOf(q.Params)})
	}
	o := explain.Options{
		Method: cmp.Or(r.Method, http.MethodGet), Target: r.Target, Door: cmp.Or(r.Door, doorname.ExtAuthz), Peer: r.Peer, Headers: http.Header{},
		KeepMalformedPaths: d.mapping.KeepMalformed,
	}
	if !slices.Contains(doorname.All(), o.Door) {
		return nil, fmt.Errorf("unknown door %q; want one of %s", o.Door, strings.Join(doorname.All(), ", "))
	}
	if r.Target == "" {
		o.Method = ""
	}
	for name, values := range r.Headers {
		for _, value := range values {
			o.Headers.Add(name, value)
		}
	}
	if o.Headers.Get("X-Forwarded-For") != "" && (o.Door == doorname.ForwardAuth || o.Door == doorname.ExtAuthzWeb) {
		o.TrustedHops = d.mapping.TrustedHops
	}
	o.Params = entriesOf(q.Params)
	return explain.New(o)
}

// entriesOf returns parameters in order.
func entriesOf(params Identity) []mapping.Entry {
	var list []mapping.Entry
	for _, name := range namesOf(params) {
		list = append(list, mapping.Entry{Key: name, Value: params[name]})
	}
	return list
}

// read reads the counters of the rules and the last refusals.
func (d *Desk) read(ctx context.Context, w *Why) error {
	w.Refusals = []Refusal{}
	var matches []rules.Match
	var of []*WhyRule
	for i := range w.Rules {
		if r := &w.Rules[i]; r.match != nil {
			matches, of = append(matches, *r.match), append(of, r)
		}
	}
	counters, degraded, err := d.engine.Counters(ctx, matches)
	if err != nil {
		return errors.Join(errors.New("no store answered"), err)
	}
	w.Degraded = degraded
	for i, r := range of {
		c := &counters[i]
		if x := c.Exception; x != nil {
			r.Exception, r.kind = x.ID, x.Kind
			r.Why = exceptionWhy(x)
		}
		if !r.match.Rule.Counts() {
			continue
		}
		r.Counted, r.Limit, r.Used, r.Remaining = true, c.Limit, c.Used, c.Remaining
		r.ResetMS, r.RetryMS, r.BannedMS = milliseconds(c.Reset), milliseconds(c.Retry), milliseconds(c.Banned)
		r.Leased = c.Leased
		if c.Retry < 0 {
			r.RetryMS = -1
		}
		w.Refusals = append(w.Refusals, d.refusals.Of(&matches[i])...)
	}
	slices.SortStableFunc(w.Refusals, func(a, b Refusal) int { return b.At.Compare(a.At) })
	return nil
}

// whyMatches returns the rules that a request meets, and the rules that only one
// condition keeps from it.
func whyMatches(set *rules.Set, params *rules.Params, now int64) []WhyRule {
	matches := rules.Matches{Now: now}
	set.Match(params, &matches)
	list := []WhyRule{}
	next := 0
	for _, r := range set.Rules {
		if next < len(matches.List) && matches.List[next].Rule == r {
			m := &matches.List[next]
			next++
			row := rowOf(r)
			row.Matched, row.match = true, m
			if r.Counts() {
				row.Identity = identityOf(m)
			}
			list = append(list, row)
			continue
		}
		if failed := failing(r, params); len(failed) == 1 || len(failed) == 0 {
			row := rowOf(r)
			row.Why = unmet(r, failed, now)
			list = append(list, row)
		}
	}
	return list
}

// whyIdentity returns the rules that count by one of the parameters, with the identity
// that they name.
func whyIdentity(set *rules.Set, params *rules.Params, now int64) []WhyRule {
	list := []WhyRule{}
	for _, r := range set.Rules {
		named := new(rules.Params)
		names := r.CountsBy()
		for _, p := range params.List() {
			if slices.Contains(names, p.Name) {
				named.SetNamed(params.FullName(p.Name), p.Value)
			}
		}
		if named.Len() == 0 {
			continue
		}
		row := rowOf(r)
		row.Matched, row.Why = false, ""
		match, err := r.Identify(named)
		var incomplete *rules.IdentityError
		if errors.As(err, &incomplete) {
			row.Why = incomplete.Reason()
			list = append(list, row)
			continue
		}
		row.complete(&match, params, now)
		list = append(list, row)
	}
	return list
}

// complete sets the counter of a rule by the identity, and why requests do not meet it.
func (w *WhyRule) complete(m *rules.Match, params *rules.Params, now int64) {
	w.Identity = identityOf(m)
	var missing []string
	for i := range m.Rule.Thresholds {
		if name := m.Rule.Thresholds[i].Param; !slices.Contains(missing, name) {
			if _, known := params.Get(name); !known {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		w.Why = "its limit depends on missing parameters: " + strings.Join(missing, ", ")
		return
	}
	limits, limited := m.Rule.LimitsFor(params)
	if !limited {
		w.Why = "it is unlimited for these parameters"
		return
	}
	m.Limits = limits
	w.match = m
	full := rules.MakeParams(w.Identity)
	for _, p := range params.List() {
		full.SetNamed(params.FullName(p.Name), p.Value)
	}
	failed := failing(m.Rule, full)
	if w.Matched = len(failed) == 0 && m.Rule.ActiveAt(now); w.Matched {
		w.Why = effect(m.Rule)
	} else {
		w.Why = unmet(m.Rule, failed, now)
	}
}

func rowOf(r *rules.Rule) WhyRule {
	return WhyRule{Rule: r.Return, Name: r.Name, Why: effect(r)}
}

// effect returns what a rule does that a request meets.
func effect(r *rules.Rule) string {
	switch {
	case r.Shadow:
		return "it never decides: shadow=1"
	case r.Counts() && len(r.CountsBy()) == 0:
		return "it counts all requests together"
	case r.Counts():
		return "it counts by " + strings.Join(r.CountsBy(), ", ")
	}
	return "it answers " + r.Result.Verdict().String() + " to every request that meets it"
}

// exceptionWhy returns what an exception does.
func exceptionWhy(x *engine.Exception) string {
	until := time.UnixMilli(x.Until).UTC().Format(time.RFC3339)
	switch x.Kind {
	case engine.ExceptAllow:
		return "an exception lets it pass until " + until
	case engine.ExceptDeny:
		return "an exception refuses it until " + until
	}
	return fmt.Sprintf("an exception sets its count to %d until %s", x.Count, until)
}

// failing returns the conditions that do not hold.
func failing(r *rules.Rule, params *rules.Params) []*rules.Condition {
	var list []*rules.Condition
	for _, c := range r.Conditions {
		if !c.OfResponse() && !c.Holds(params) {
			list = append(list, c)
		}
	}
	return list
}

// unmet returns why a request does not meet a rule.
func unmet(r *rules.Rule, failed []*rules.Condition, now int64) string {
	var reasons []string
	for _, c := range failed {
		reasons = append(reasons, c.String())
	}
	switch {
	case len(reasons) > 0:
		return "requests must also meet " + strings.Join(reasons, "; ")
	case !r.ActiveAt(now):
		return "it is not active now: see its since= and until="
	}
	return "it is unlimited for these parameters"
}
