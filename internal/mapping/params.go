package mapping

import (
	"maps"
	"slices"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// Options are what a door's setting says of its gateways.
type Options struct {
	// TrustedHops is how many gateways stand before the one that asks and add
	// to X-Forwarded-For: as many elements are passed over from the right. For
	// the middleware, how many stand before the process; 0 takes the peer.
	TrustedHops int
	// KeepMalformed decides on paths with a broken escape or a NUL, which are
	// refused otherwise; what is broken then stands for itself.
	KeepMalformed bool
}

// Params empties p and fills it with the parameters of r: what [params] and
// [routes] of set and the rules of the request's door make of it. Later steps
// override earlier ones. An error is a *Refusal.
func Params(set *rules.Set, r *Request, o *Options, p *rules.Params) error {
	p.Reset()
	var q original
	if err := q.read(r, o); err != nil {
		return err
	}
	var room [24]string // an ordinary path has no more segments
	segments, err := q.splitTarget(room[:0], o.KeepMalformed)
	if err != nil {
		return err
	}
	q.derive(set, p)
	for _, d := range set.Params {
		add(p, d.Name, q.declared(d))
	}
	if len(segments) > 0 {
		set.Routes.Match(q.method, segments, p)
	}
	q.addContext(p)
	q.addArguments(set, p)
	if believesParamHeaders(r.Door) {
		for _, d := range set.Params {
			if d.GatewayHeader != "" {
				add(p, d.Name, q.gatewayValue(d))
			}
		}
	}
	limit(set, p)
	return nil
}

// derive adds what every request of a door has.
func (q *original) derive(set *rules.Set, p *rules.Params) {
	add(p, "door", q.call.Door)
	if q.call.Door == doorname.RateLimit {
		add(p, "domain", q.call.Domain)
		// A descriptor's entries stand beside these two, never in their place.
		seen := once{set: set}
		seen.first("door")
		seen.first("domain")
		for i := range q.call.Entries {
			e := &q.call.Entries[i]
			if seen.first(e.Key) {
				add(p, e.Key, q.said(e.Value))
			}
		}
		return
	}
	add(p, "method", q.method)
	add(p, "host", q.host)
	add(p, "path", q.path)
	add(p, "scheme", q.scheme)
	add(p, "ip", q.ip)
}

// addContext adds what the gateway's configuration says of the route. Its
// order counts only where there is more than fits.
func (q *original) addContext(p *rules.Params) {
	if p.Len()+len(q.call.Context) > MaxParams {
		for _, name := range slices.Sorted(maps.Keys(q.call.Context)) {
			add(p, name, q.said(q.call.Context[name]))
		}
		return
	}
	for name, value := range q.call.Context {
		add(p, name, q.said(value))
	}
}

// addArguments adds the arguments of the call itself: static ones, which the
// gateway's configuration put into the check's URL, and those of Koala's API.
// At ext-authz the query is the client's, and so it is none of these.
func (q *original) addArguments(set *rules.Set, p *rules.Params) {
	seen := once{set: set}
	switch q.call.Door {
	case doorname.AuthRequest, doorname.ForwardAuth, doorname.Accel:
		_, query := cutTarget(q.call.Path)
		for query != "" {
			var name, value string
			name, value, query = nextArgument(query)
			if !isOurs(name) && seen.first(name) {
				add(p, name, q.said(value))
			}
		}
	case doorname.Koala:
		for i := range q.call.Args {
			a := &q.call.Args[i]
			if !isOurs(a.Key) && seen.first(a.Key) {
				add(p, a.Key, q.said(a.Value))
			}
		}
	}
}

// isOurs tells whether an argument is one of the service's own.
func isOurs(name string) bool { return name != "" && name[0] == '_' }

// believesParamHeaders tells whether X-Koala-Param headers are the gateway's
// word at a door. At the others they are the client's.
func believesParamHeaders(d string) bool {
	switch d {
	case doorname.AuthRequest, doorname.ForwardAuth, doorname.Accel, doorname.ExtAuthzWeb:
		return true
	}
	return false
}

// add sets a parameter, unless its name or value is empty.
func add(p *rules.Params, name, value string) {
	if name != "" && value != "" {
		p.Set(name, value)
	}
}
