package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	// Descriptor has the entries of a descriptor in their order, at the door ratelimit;
	// its domain is the parameter domain. Without it, the other parameters are the
	// entries, in the order of their names.
	Descriptor []Entry `json:"descriptor,omitempty"`
	// Metadata is Envoy's dynamic metadata, by "NAMESPACE PATH".
	Metadata explain.Metadata `json:"metadata,omitempty"`
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
	// Degraded reports that Redis is unavailable, and the counters come from
	// this instance.
	Degraded bool `json:"degraded"`
	// Ban is the exception that bans the request or the identity from everything; nil for none.
	Ban *WhyBan `json:"ban,omitempty"`
	// Refused is the reason for which the request is refused before any rule.
	Refused string `json:"refused,omitempty"`
	// Status is the status of HTTP with which a gateway refuses the request; 0 if it
	// passes, or without a request.
	Status int64 `json:"status,omitempty"`
	// Tokens are the verifications of the tokens of the request; none without a request.
	Tokens []explain.Token `json:"tokens,omitempty"`
	// Headers are the headers that the client would get with the answer to the request.
	Headers []Header `json:"headers,omitempty"`
	// Imported is the imported limit of a descriptor, which comes before the rules; nil
	// at other doors, and in services without imported limits.
	Imported *WhyImported `json:"imported,omitempty"`
}

// Header is a header of an answer.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Why answers a question. The error is an InputError, or an error of the counters.
func (d *Desk) Why(ctx context.Context, q *Question) (*Why, error) {
	if err := d.checkQuestion(q); err != nil {
		return nil, err
	}
	set := d.inForce()
	if set == nil {
		return nil, errNoRules
	}
	if q.Request != nil {
		return d.whyRequest(ctx, set, q)
	}
	if len(q.Params) == 0 {
		return nil, invalid("no question; want a request, or parameters such as uid=ann")
	}
	params := rules.MakeParams(q.Params)
	ban := d.engine.Ban(params)
	if ban == nil {
		if err := d.checkKnown(ctx, set, params); err != nil {
			return nil, err
		}
	}
	list, err := whyIdentity(ctx, set, params, d.engine.Now())
	if err != nil {
		return nil, err
	}
	w := &Why{Verdict: rules.Allow.String(), Rules: list, Ban: whyBan(ban)}
	if err := d.read(ctx, w); err != nil {
		return nil, err
	}
	if ban != nil {
		w.Verdict = rules.Deny.String()
		return w, nil
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
	params, verified, err := question.Params(ctx, set)
	var refusal *mapping.Refusal
	if errors.As(err, &refusal) {
		return &Why{Verdict: rules.Deny.String(), Refused: refusal.Reason, Status: int64(refusal.Status), Rules: []WhyRule{}, Refusals: []Refusal{}}, nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, InputError{err}
	}
	for _, param := range params.List() {
		if err := d.checkMask(param.Name, param.Value); err != nil {
			return nil, err
		}
	}
	decision, err := d.engine.Decide(ctx, &engine.Call{
		Rules: set, Op: engine.Browse, Patience: engine.MaxWait, CallerWaits: true, Unobserved: true, Inputs: []engine.Input{{Params: params}},
	})
	switch {
	case engine.IsInvalid(err):
		return nil, InputError{err}
	case err != nil:
		return nil, err
	case decision.Unavailable:
		return nil, unanswered(decision.Cause)
	}
	list, err := whyMatches(ctx, set, params, d.engine.Now())
	if err != nil {
		return nil, err
	}
	w := &Why{Verdict: decision.Verdict.String(), WaitMS: decision.Wait.Milliseconds(), Rules: list, Tokens: verified, Ban: whyBan(decision.Answers[0].Ban)}
	if decider := decision.Answers[0].Decider; decider != nil {
		w.Decider = decider.Return
	}
	if decision.Verdict != rules.Allow {
		w.Status = int64(decision.Refusal().Status)
	}
	for _, h := range decision.ClientHeaders(nil, d.presentation) {
		w.Headers = append(w.Headers, Header(h))
	}
	if err := d.read(ctx, w); err != nil {
		return nil, err
	}
	return w, d.whyImported(ctx, question, w)
}

// explained returns the question about a request, or about parameters alone, in terms of
// package explain.
func (d *Desk) explained(q *Question) (*explain.Question, error) {
	r := q.Request
	if r == nil {
		return explain.New(explain.Options{Params: entriesOf(q.Params), Limits: d.limits(), MaxParams: d.mapping.MaxParams, MaxValue: d.mapping.MaxValue, MaxRules: d.maxRules})
	}
	o := explain.Options{
		Method: cmp.Or(r.Method, http.MethodGet), Target: r.Target, Door: cmp.Or(r.Door, doorname.ExtAuthz), Peer: r.Peer, Headers: http.Header{}, Metadata: r.Metadata,
		KeepMalformedPaths: d.mapping.KeepMalformed, Limits: d.limits(), MaxParams: d.mapping.MaxParams, MaxValue: d.mapping.MaxValue, MaxRules: d.maxRules,
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
	if o.Headers.Get("X-Forwarded-For") != "" && doorname.IsServed(o.Door) && doorname.Of(o.Door).Hops {
		o.TrustedHops = d.mapping.TrustedHops
	}
	var err error
	if o.Params, err = q.descriptorOf(); err != nil {
		return nil, err
	}
	return explain.New(o)
}

// entriesOf returns parameters in order.
func entriesOf(params Identity) []mapping.Entry {
	var list []mapping.Entry
	for _, name := range slices.Sorted(maps.Keys(params)) {
		list = append(list, mapping.Entry{Key: name, Value: params[name]})
	}
	return list
}

// readAtOnce is the number of counters that a question reads in one step of the store, which
// delays other calls.
const readAtOnce = 64

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
	if len(matches) > d.maxRules {
		return invalid("%d rules count by these parameters; want at most %d, which is max_rules; name more of the parameters", len(matches), d.maxRules)
	}
	counters, degraded, err := d.counters(ctx, matches)
	if err != nil {
		return err
	}
	w.Degraded = w.Degraded || degraded
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
		r.ResetMS, r.RetryMS, r.BannedMS = c.Reset.Milliseconds(), c.Retry.Milliseconds(), c.Banned.Milliseconds()
		r.Leased = c.Leased
		if l := c.Lent; l.Holders > 0 {
			r.Lent = &WhyLent{l.Holders, float64(l.Rate) / 10, float64(l.Limit) / 10}
		}
		if c.Retry < 0 {
			r.RetryMS = -1
		}
		w.addRefusals(d.refusals.Of(&matches[i]))
	}
	return nil
}

// addRefusals adds refusals to the list, in its order.
func (w *Why) addRefusals(list []Refusal) {
	w.Refusals = append(w.Refusals, list...)
	slices.SortStableFunc(w.Refusals, func(a, b Refusal) int { return b.At.Compare(a.At) })
}
