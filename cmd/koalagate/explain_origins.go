package main

import (
	"net/url"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// origins finds what the parameters of a request were made of, by mapping it
// again and again, each time with one source more. What changes is what that
// source said.
type origins struct {
	call    *mapping.Request
	options mapping.Options
	given   []mapping.Entry
	params  *rules.Params
	of      map[string]string
}

func (o *origins) find(set *rules.Set) error {
	less := *set
	less.Params, less.Routes = nil, new(rules.Routes)
	if err := o.add(&less, o.call, "derived"); err != nil {
		return err
	}
	for _, d := range set.Params {
		// Without its GatewayHeader: the gateway's own word overrides all
		// others, and so comes last.
		part := &rules.ParamDecl{Name: d.Name}
		less.Params = append(less.Params, part)
		for i := range d.Sources {
			part.Sources = d.Sources[:i+1]
			if err := o.add(&less, o.call, d.Sources[i].String()); err != nil {
				return err
			}
		}
	}
	less.Routes = set.Routes
	if err := o.add(&less, o.call, "[routes]"); err != nil {
		return err
	}
	full := o.whole()
	if err := o.add(&less, full, givenAt(full.Door)); err != nil {
		return err
	}
	return o.add(set, full, rules.ParamSource{Kind: rules.FromGateway}.String())
}

// add maps the request with these sources, and notes the newest as the origin
// of all that it changes.
func (o *origins) add(set *rules.Set, call *mapping.Request, newest string) error {
	next := new(rules.Params)
	if err := mapping.Params(set, call, &o.options, next); err != nil {
		return err
	}
	for _, p := range next.List() {
		if before, had := o.params.Get(p.Name); !had || before != p.Value {
			o.of[p.Name] = newest
		}
	}
	*o.params = *next
	return nil
}

// whole is the call with all that the gateway's configuration says.
func (o *origins) whole() *mapping.Request {
	full := *o.call
	switch full.Door {
	case doorname.ExtAuthz, doorname.Middleware:
		full.Context = make(map[string]string, len(o.given))
		for _, e := range o.given {
			full.Context[e.Key] = e.Value
		}
	case doorname.RateLimit:
		for _, e := range o.given {
			if e.Key == "domain" {
				full.Domain = e.Value
				continue
			}
			full.Entries = append(full.Entries, e)
		}
	case doorname.Koala:
		full.Args = o.given
	case doorname.AuthRequest, doorname.ForwardAuth, doorname.Accel:
		query := make(url.Values)
		for _, e := range o.given {
			query.Set(e.Key, e.Value)
		}
		full.Path = "/v1/" + full.Door + "?" + query.Encode()
	}
	return &full
}

func givenAt(door string) string {
	for _, d := range doors {
		if d.door == door {
			return d.given
		}
	}
	return ""
}
