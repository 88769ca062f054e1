package explain

import (
	"context"
	"net/url"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// params returns the rule parameters and their origins, which are nil for parameters that were
// given as such. The error may be a *mapping.Refusal.
func (q *Question) params(ctx context.Context, set *rules.Set) (*originTracer, error) {
	if q.call == nil {
		params := new(rules.Params)
		for _, e := range q.options.Params {
			params.SetNamed(e.Key, e.Value)
		}
		return &originTracer{params: params}, nil
	}
	t := &originTracer{
		options: mapping.Options{
			MaxParams: q.options.MaxParams, MaxValue: q.options.MaxValue,
			TrustedHops: q.options.TrustedHops, KeepMalformed: q.options.KeepMalformedPaths,
			// The address of a request to explain may be unknown.
			KeepMissingAddress: true,
		},
		params: new(rules.Params), origins: make(map[string]string),
	}
	t.options.Tokens = &t.tokens
	return t, t.trace(ctx, set, q)
}

// Params returns the rule parameters of the question by the [params] and [routes] of a
// rule set, and how the verifications of its tokens ended. The error may be a
// *mapping.Refusal: the request is refused before any rule. It may also come from ctx.
func (q *Question) Params(ctx context.Context, set *rules.Set) (*rules.Params, []Token, error) {
	t, err := q.params(ctx, set)
	return t.params, t.listTokens(), err
}

func (t *originTracer) listParams() []Param {
	list := make([]Param, 0, t.params.Len())
	for _, p := range t.params.List() {
		list = append(list, Param{p.Name, p.Value, t.origins[p.Name]})
	}
	return list
}

// listTokens explains how the verification of each token ended.
func (t *originTracer) listTokens() []Token {
	var list []Token
	for i := range t.tokens {
		found := &t.tokens[i]
		places := make([]string, len(found.Of.Places))
		for i := range places {
			places[i] = found.Of.Places[i].String()
		}
		x := Token{Name: found.Of.Name, Outcome: found.Outcome.String(), From: strings.Join(places, ", ")}
		if found.Place != nil {
			x.From = found.Place.String()
		}
		if found.Err != nil {
			x.Reason = found.Err.Error()
		}
		list = append(list, x)
	}
	return list
}

// withTokens returns the parameters whose values have a token as it is.
func (t *originTracer) withTokens(set *rules.Set) map[string]bool {
	names := make(map[string]bool)
	for _, d := range set.Params {
		for i := range d.Sources {
			from, s := t.origins[d.Name], &d.Sources[i]
			if set.MayHaveToken(s) && (from == s.String() || from == "") {
				names[d.Name] = true
			}
		}
	}
	return names
}

// absent returns the declared parameters that a request lacks. Most rules that
// are not met depend on a header that the gateway does not send.
func absent(set *rules.Set, params *rules.Params) []Param {
	var list []Param
	for _, d := range set.Params {
		if _, ok := params.Get(d.Name); ok {
			continue
		}
		sources := make([]string, len(d.Sources))
		for i := range d.Sources {
			sources[i] = d.Sources[i].String()
		}
		list = append(list, Param{d.Name, "", strings.Join(sources, " else ")})
	}
	return list
}

// originTracer finds the origins of parameters by mapping a request repeatedly,
// each time with one more source: the parameters that change have the origin
// that was added.
type originTracer struct {
	options mapping.Options
	params  *rules.Params
	origins map[string]string
	tokens  []mapping.Token
}

func (t *originTracer) trace(ctx context.Context, set *rules.Set, q *Question) error {
	partial := set.WithoutRoutes()
	partial.Params = nil
	if err := t.add(partial, q.call, "derived"); err != nil {
		return err
	}
	for i := range t.tokens {
		t.origins[t.tokens[i].Of.Param] = "[tokens]"
	}
	for _, d := range set.Params {
		// The copy has no GatewayHeader: the header of the gateway overrides all
		// other sources, so it comes last.
		decl := &rules.ParamDecl{Name: d.Name}
		partial.Params = append(partial.Params, decl)
		for i := range d.Sources {
			if err := pace.Step(ctx); err != nil {
				return err
			}
			decl.Sources = d.Sources[:i+1]
			if err := t.add(partial, q.call, d.Sources[i].String()); err != nil {
				return err
			}
		}
	}
	withRoutes := *set
	withRoutes.Params = partial.Params
	if err := t.add(&withRoutes, q.call, "[routes]"); err != nil {
		return err
	}
	call := q.fullCall()
	if err := t.add(&withRoutes, call, doorname.Of(call.Door).Origin); err != nil {
		return err
	}
	return t.add(set, call, rules.ParamSource{Kind: rules.FromGateway}.String())
}

// add maps the request by set and records origin for all parameters that change.
func (t *originTracer) add(set *rules.Set, call *mapping.Request, origin string) error {
	next := new(rules.Params)
	if err := mapping.Params(set, call, &t.options, next); err != nil {
		return err
	}
	for _, p := range next.List() {
		if before, had := t.params.Get(p.Name); !had || before != p.Value {
			t.origins[p.Name] = origin
		}
	}
	*t.params = *next
	return nil
}

// fullCall returns the call with the parameters that the gateway's configuration
// adds.
func (q *Question) fullCall() *mapping.Request {
	call, params := *q.call, q.options.Params
	switch doorname.Of(call.Door).Adds {
	case doorname.Context:
		call.Context = make(map[string]string, len(params))
		for _, e := range params {
			call.Context[e.Key] = e.Value
		}
	case doorname.Entries:
		for _, e := range params {
			if e.Key == "domain" {
				call.Domain = e.Value
				continue
			}
			call.Entries = append(call.Entries, e)
		}
	case doorname.Arguments:
		call.Args = params
	case doorname.Query:
		query := make(url.Values)
		for _, e := range params {
			query.Set(e.Key, e.Value)
		}
		call.Path = "/v1/" + call.Door + "?" + query.Encode()
	}
	return &call
}
