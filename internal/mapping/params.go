package mapping

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"

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
	// Tokens, if it is not nil, receives the tokens of the request with the reasons for which
	// they are not valid. The tokens that it has are not verified again: a request that is
	// mapped several times has the same ones.
	Tokens *[]Token
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
	var buffer [24]string // most paths have fewer segments
	segments := buffer[:0]
	malformed := q.checkHost(o)
	if malformed == nil {
		segments, malformed = q.splitTarget(segments, o)
	}
	if malformed != nil && len(set.Forwards) == 0 {
		return malformed
	}
	// If the door lets a malformed request through, the application learns who sent it.
	q.derive(set, p)
	if len(set.Tokens) > 0 {
		q.verify(set, o)
	}
	q.addDeclared(set, p)
	if malformed == nil && len(segments) > 0 {
		set.Route(q.method, segments, p)
	}
	q.addContext(p)
	q.addArguments(set, p)
	if q.door.ParamHeaders {
		q.addGatewayValues(set, p)
	}
	for i := range q.tokens { // nothing else sets the outcomes of verifications
		p.Set(q.tokens[i].Of.Param, q.tokens[i].Outcome.String())
	}
	q.addLate(set, p)
	q.limit(set, o, p)
	if malformed != nil {
		return malformed
	}
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

// The defaults of the bounds on the parameters of one request.
const (
	DefaultMaxParams = 64
	DefaultMaxValue  = 4 * 1024 // bytes
)

// Bound is the name of a bound on the parameters of a request.
type Bound string

// The bounds that Options.Exceeded reports.
const (
	BoundParams    Bound = "params"     // Options.MaxParams
	BoundValueSize Bound = "value_size" // Options.MaxValue
)

// Bounds returns all bounds on parameters.
func Bounds() []Bound { return []Bound{BoundParams, BoundValueSize} }

// limit applies the bounds to p. It removes blank values, shortens long ones and, if
// there are too many parameters, drops parameters that no rule names, which do not affect
// the decision. It keeps all parameters that rules name: without one of them its rules
// would not match, and a client could evade a limit. Their number is bounded by the
// rule files, which the operator writes.
func (q *original) limit(set *rules.Set, o *Options, p *rules.Params) {
	maxValue, long := cmp.Or(o.MaxValue, DefaultMaxValue), false
	for i := p.Len() - 1; i >= 0; i-- {
		parameter := p.List()[i]
		switch {
		case isBlank(parameter.Value):
			p.Delete(parameter.Name)
		case len(parameter.Value) > maxValue:
			long = true
			p.Shorten(parameter.Name, shorten(parameter.Value, maxValue))
		}
	}
	for i := p.Len() - 1; i >= 0 && p.Len() > q.maxParams; i-- {
		if name := p.List()[i].Name; !set.Needs(name) {
			p.Delete(name)
			q.crowded = true
		}
	}
	if o.Exceeded != nil {
		if long {
			o.Exceeded(BoundValueSize)
		}
		if q.crowded {
			o.Exceeded(BoundParams)
		}
	}
}

// shorten cuts a long value at most bytes, or before the character that crosses that
// point, and replaces the rest by a digest. The result is longer than most bytes, so it
// never equals a value that was not shortened, and different values stay different.
// Surrounding blanks are trimmed first, as in conditions, because their number must not
// change the value.
func shorten(value string, most int) string {
	value = trim(value)
	if len(value) <= most {
		return value
	}
	cut := most
	for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(value[cut]); back++ {
		cut--
	}
	return value[:cut] + digest(value[cut:])
}

// once finds the first occurrence of each name. After most names it ignores names
// that no rule uses, which bounds the work for a request with very many.
type once struct {
	set  *rules.Set
	most int
	few  [12]string // the first names; most requests have no more and need no allocation
	n    int        // the number of names in few
	more []string

	ignored bool // a name was ignored
}

// first reports whether name occurs for the first time and is not ignored.
func (o *once) first(name string) bool {
	if o.n+len(o.more) >= o.most && !o.set.Needs(name) {
		o.ignored = true
		return false
	}
	if slices.Contains(o.few[:o.n], name) || slices.Contains(o.more, name) {
		return false
	}
	if o.n < len(o.few) {
		o.few[o.n] = name
		o.n++
	} else {
		o.more = append(o.more, name)
	}
	return true
}
