package mapping

import (
	"cmp"
	"maps"
	"slices"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// Options describe the gateways in front of a door.
type Options struct {
	// TrustedHops is the number of gateways before the one that sends the check and
	// that append to X-Forwarded-For: that many elements are skipped from the right.
	// For the middleware it is the number of gateways before the process; 0 uses the
	// address of the peer.
	TrustedHops int
	// KeepMalformed decides requests whose hosts are malformed, or differ from the host of
	// the target, which are then used as received, and requests whose paths have an invalid
	// escape, a NUL, a fragment or an encoded dot segment. An encoded dot segment is then
	// resolved, and the others stand for themselves. Otherwise such requests are refused.
	KeepMalformed bool
	// KeepMissingAddress decides requests without an address of the client if a
	// parameter that rules use comes from it and has no other value. They then have no
	// such parameter, and its rules do not match. Otherwise they are refused.
	KeepMissingAddress bool
	// EncodedSlashes decides paths with encoded slashes. Gateways that forward them
	// to applications keep them, the zero value.
	EncodedSlashes EncodedSlashes
	// MaxParams is the maximum number of parameters. Parameters that no rule names, which
	// do not affect the decision, are dropped above it. The default is 64.
	MaxParams int
	// MaxValue is the maximum length of a value in bytes. The rest of a longer value
	// is replaced by a digest. The default is 4096.
	MaxValue int
	// Exceeded is called at most once per request and bound that it exceeds. It must
	// return at once. It may be nil.
	Exceeded func(Bound)
}

// Params replaces the contents of p by the parameters of r, according to [params] and
// [routes] of set and to the door of the request. Later steps override earlier ones. An
// error is a *Refusal.
func Params(set *rules.Set, r *Request, o *Options, p *rules.Params) error {
	p.Reset()
	var q original
	q.maxParams = cmp.Or(o.MaxParams, DefaultMaxParams)
	if err := q.read(r, o); err != nil {
		return err
	}
	if err := q.checkHost(o); err != nil {
		return err
	}
	var buffer [24]string // most paths have fewer segments
	segments, err := q.splitTarget(buffer[:0], o)
	if err != nil {
		return err
	}
	q.derive(set, p)
	for _, d := range set.Params {
		q.addDeclared(d, p)
	}
	if len(segments) > 0 {
		set.Routes.Match(q.method, segments, p)
	}
	q.addContext(p)
	q.addArguments(set, p)
	if q.door.ParamHeaders {
		for _, d := range set.Params {
			if d.GatewayHeader != "" {
				q.addGatewayValue(d, p)
			}
		}
	}
	for _, d := range set.Params {
		if d.IsLate() {
			q.addLate(d, p)
		}
	}
	q.limit(set, o, p)
	if !q.address.IsValid() && !o.KeepMissingAddress && q.lacksAddress(set, p) {
		return withoutAddress(r.Door)
	}
	return nil
}

// derive adds the parameters that every request of a door has.
func (q *original) derive(set *rules.Set, p *rules.Params) {
	add(p, "door", q.call.Door)
	if q.door.Adds == doorname.Entries {
		add(p, "domain", q.call.Domain)
		// A descriptor's entries cannot replace these two.
		seen := once{set: set, most: q.maxParams}
		seen.first("door")
		seen.first("domain")
		for i := range q.call.Entries {
			e := &q.call.Entries[i]
			if seen.first(e.Key) {
				add(p, e.Key, q.known(e.Value))
			}
		}
		q.crowded = seen.ignored
		return
	}
	add(p, "method", q.method)
	add(p, "host", q.host)
	add(p, "path", q.path)
	add(p, "scheme", q.scheme)
	add(p, "ip", q.ip)
}

// addContext adds the parameters that the gateway's configuration sets for the route.
// Their order matters only if there are too many, since the last are dropped.
func (q *original) addContext(p *rules.Params) {
	if p.Len()+len(q.call.Context) > q.maxParams {
		for _, name := range slices.Sorted(maps.Keys(q.call.Context)) {
			add(p, name, q.known(q.call.Context[name]))
		}
		return
	}
	for name, value := range q.call.Context {
		add(p, name, q.known(value))
	}
}

// addArguments adds the arguments of the check itself: the arguments that the
// gateway's configuration puts into the URL of its checks, and arguments of Koala's API.
// Where the query of the check is the client's, it is not used.
func (q *original) addArguments(set *rules.Set, p *rules.Params) {
	seen := once{set: set, most: q.maxParams}
	switch q.door.Adds {
	case doorname.Query:
		_, query := cutTarget(q.call.Path)
		for query != "" {
			var name, value string
			name, value, query = nextArgument(query)
			if !isOurs(name) && seen.first(name) {
				add(p, name, q.known(value))
			}
		}
	case doorname.Arguments:
		for i := range q.call.Args {
			a := &q.call.Args[i]
			if !isOurs(a.Key) && seen.first(a.Key) && a.Key != "" && !isBlank(a.Value) {
				p.SetNamed(a.Key, a.Value)
			}
		}
	}
	q.crowded = q.crowded || seen.ignored
}

// isOurs reports whether an argument is for the service itself.
func isOurs(name string) bool { return name != "" && name[0] == '_' }

// add sets a parameter, unless its name or value is empty.
func add(p *rules.Params, name, value string) {
	if name != "" && value != "" {
		p.Set(name, value)
	}
}
