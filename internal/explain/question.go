// Package explain reports which rules a request meets, which conditions fail
// and what the rules decide, without counting anything. The report is a value
// that it writes as text or as JSON.
package explain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/spelling"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// maxTrustedHops is the maximum of the service's trusted_hops.
const maxTrustedHops = 32

// Metadata has values of Envoy's dynamic metadata by namespace and path.
type Metadata map[MetadataKey]string

// MetadataKey names a value of dynamic metadata as [params] does. Its text is
// "NAMESPACE PATH".
type MetadataKey struct{ Namespace, Path string }

// MarshalText returns the text of the key.
func (k MetadataKey) MarshalText() ([]byte, error) { return []byte(k.Namespace + " " + k.Path), nil }

// UnmarshalText parses the text of a key.
func (k *MetadataKey) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	if len(words) != 2 {
		return errors.New("want 'NAMESPACE PATH', as in [params]")
	}
	k.Namespace, k.Path = words[0], words[1]
	return nil
}

// Options describes what to explain: a request at a door, or rule parameters if
// Target and Door are empty.
type Options struct {
	// Method and Target belong to the client's request. Target is a path or
	// a URL.
	Method, Target string
	// Headers belong to the client's request. New copies them.
	Headers http.Header
	// Door is one of doorname.All; "" with a Target means doorname.ExtAuthz.
	Door string
	// Peer is the client's address as the gateway sees it, with or without a
	// port; "" if unknown.
	Peer string
	// Metadata, Principal and SNI are attributes that only Envoy sends, to doors with
	// Attributes.
	Metadata       Metadata
	Principal, SNI string
	// TrustedHops is the service's trusted_hops, 0 … 32.
	TrustedHops int
	// KeepMalformedPaths is true for "keep" in the service's malformed_paths.
	KeepMalformedPaths bool
	// Params are the rule parameters, or with a request or door the values that
	// the gateway's configuration adds. Names must be unique, except for entries of a
	// descriptor, whose order matters.
	Params []mapping.Entry
	// MaxParams and MaxValue are the bounds of the service on parameters; see
	// mapping.Options.
	MaxParams, MaxValue int
	// MaxRules is the service's max_rules; 0 means the maximum of the engine.
	MaxRules int
	// Limits are the imported limits of the door doorname.RateLimit, which come before the
	// rules; nil for none.
	Limits *envoylimits.Set
	// Hits is the number of hits that the request stands for, up to
	// engine.MaxHits; 0 means 1.
	Hits uint64
	// NoHits is true for a request that stands for no hits.
	NoHits bool
	// Now is the time of the request in ms since the epoch; 0 means the current
	// time.
	Now int64
}

// Question is a validated request to explain. It is safe for concurrent use.
type Question struct {
	options Options
	call    *mapping.Request // the gateway's call without Params; nil for rule parameters
}

// New validates o. Errors say which options are invalid or missing, by the names
// of the flags of `koalagate explain`.
func New(o Options) (*Question, error) {
	if err := o.checkNames(); err != nil {
		return nil, err
	}
	q := &Question{options: o}
	if o.Target != "" || o.Door != "" {
		return q, q.makeCall()
	}
	if len(o.Headers) > 0 || o.Peer != "" || o.hasEnvoyAttributes() || o.TrustedHops != 0 {
		return nil, errors.New("headers, a peer, trusted hops and Envoy's attributes need a request; set --request 'METHOD /path' or --door")
	}
	return q, nil
}

func (o *Options) checkNames() error {
	seen := make(map[string]bool, len(o.Params))
	for _, p := range o.Params {
		if seen[p.Key] && (doorname.Of(o.Door).Adds != doorname.Entries || p.Key == "domain") {
			return fmt.Errorf("duplicate parameter %s", p.Key)
		}
		seen[p.Key] = true
	}
	return nil
}

func (o *Options) hasEnvoyAttributes() bool {
	return len(o.Metadata) > 0 || o.Principal != "" || o.SNI != ""
}

// makeCall builds the call that a gateway makes for the request.
func (q *Question) makeCall() error {
	o := &q.options
	if o.Door == "" {
		o.Door = doorname.ExtAuthz
	}
	headers := http.Header{}
	maps.Copy(headers, o.Headers.Clone())
	q.call = &mapping.Request{Door: o.Door, Peer: o.Peer, Headers: mapping.HTTPHeaders(headers)}
	door := doorname.Of(o.Door)
	if o.hasEnvoyAttributes() {
		if !door.Attributes {
			return errors.New("only the door extauthz receives metadata, a principal and an SNI; remove them, or --door")
		}
		o.addEnvoyAttributes(q.call)
	}
	if door.NamesParams() {
		if o.Target != "" || o.Peer != "" || len(headers) > 0 || o.TrustedHops != 0 {
			return fmt.Errorf("the door %s receives no request, headers or peer; use NAME=VALUE for what it receives", o.Door)
		}
		return nil
	}
	if err := o.checkPeer(door, headers); err != nil {
		return err
	}
	if o.Target == "" {
		return fmt.Errorf("the door %s receives a request; set --request 'METHOD /path'", o.Door)
	}
	if door.Adds == doorname.None && len(o.Params) > 0 {
		return fmt.Errorf("the door %s receives parameters in headers; use -H 'X-Koala-Param-NAME: VALUE'", o.Door)
	}
	call, target := q.call, o.Target
	call.Host, call.Scheme = headers.Get("Host"), "http"
	if u, err := url.Parse(o.Target); err == nil && u.Host != "" {
		call.Host, call.Scheme = u.Host, u.Scheme
		_, afterScheme, _ := strings.Cut(o.Target, "://")
		target = strings.TrimPrefix(afterScheme, u.Host)
	}
	return forward(call, door, o.Method, target, headers)
}

func (o *Options) addEnvoyAttributes(call *mapping.Request) {
	metadata := maps.Clone(o.Metadata)
	call.Principal, call.SNI = o.Principal, o.SNI
	call.Metadata = func(namespace, path string) (string, bool) {
		value, ok := metadata[MetadataKey{namespace, path}]
		return value, ok
	}
}

// checkPeer validates the peer and the trusted hops.
func (o *Options) checkPeer(door *doorname.Door, headers http.Header) error {
	if o.Peer != "" && !isAddress(o.Peer) {
		return fmt.Errorf("invalid peer %q; want an address such as 203.0.113.7 or 2001:db8::7", o.Peer)
	}
	switch {
	case o.TrustedHops < 0 || o.TrustedHops > maxTrustedHops:
		return fmt.Errorf("--trusted-hops %d is out of range; want 0 … %d", o.TrustedHops, maxTrustedHops)
	case o.TrustedHops == 0:
	case !door.Hops:
		return fmt.Errorf("the door %s does not read X-Forwarded-For; remove --trusted-hops", o.Door)
	case headers.Get("X-Forwarded-For") == "":
		return errors.New("--trusted-hops skips entries of X-Forwarded-For; add -H 'X-Forwarded-For: CLIENT, PROXY'")
	}
	return nil
}

// isAddress reports whether text is an IP address with or without a port.
func isAddress(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(text)
	return err == nil
}

// forward describes the client's request in the call as the gateways of its door
// do. All but the doors that read the fields of a call receive the client's address in a
// header, so it is required there.
func forward(call *mapping.Request, door *doorname.Door, method, target string, headers http.Header) error {
	add := func(name, value string) {
		if value != "" && headers.Get(name) == "" {
			headers.Set(name, value)
		}
	}
	switch door.Reads {
	case doorname.Original:
		add("X-Original-Method", method)
		add("X-Original-URI", target)
		add("X-Real-IP", call.Peer)
	case doorname.Forwarded:
		add("X-Forwarded-Method", method)
		add("X-Forwarded-Uri", target)
		add("X-Forwarded-For", call.Peer)
	case doorname.Check:
		call.Method, call.Path = method, "/v1/ext-authz"+target
		add("X-Forwarded-For", call.Peer)
	default: // doors that receive the request itself and its peer
		call.Method, call.Path = method, target
		return nil
	}
	add("X-Forwarded-Host", call.Host)
	add("X-Forwarded-Proto", call.Scheme)
	if headers.Get("X-Real-IP") == "" && headers.Get("X-Forwarded-For") == "" {
		return fmt.Errorf("gateways of the door %s send the client's address; set --peer ADDRESS", call.Door)
	}
	return nil
}

// Hints returns probable mistakes in the question, one sentence each: typos, of which a report
// would only show that no rule is met, and masks.
func (q *Question) Hints(set *rules.Set) []string {
	hints := q.masks()
	if upper := strings.ToUpper(q.options.Method); upper != q.options.Method {
		hints = append(hints, fmt.Sprintf("the method %s differs from %s; methods are case-sensitive", q.options.Method, upper))
	}
	given := make(map[string]bool)
	for _, e := range q.options.Params {
		given[e.Key] = true
	}
	var missing []string // parameters that rules compare and the question lacks
	for _, r := range set.Rules {
		if r.Cost != "" && !given[r.Cost] {
			missing = append(missing, r.Cost)
		}
		for i := range r.Thresholds {
			if name := r.Thresholds[i].Param; !given[name] {
				missing = append(missing, name)
			}
		}
		for _, c := range r.Conditions {
			if !given[c.Name] {
				missing = append(missing, c.Name)
			}
		}
	}
	for _, e := range q.options.Params {
		if set.Needs(e.Key) || len(e.Key) < 4 { // short names such as ip and uid are too similar
			continue
		}
		if near := spelling.Suggest(e.Key, missing); near != "" && near[0] == e.Key[0] {
			hints = append(hints, fmt.Sprintf("no rule uses the parameter %s; did you mean %s?", e.Key, near))
		}
	}
	return hints
}

// masks returns a hint for each value that is probably a mask. It has the form of one, and is
// copied from a list or a log of a running instance.
func (q *Question) masks() (hints []string) {
	check := func(what, value string) {
		if value = strings.TrimSpace(value); trace.IsPseudonym(value) {
			hints = append(hints, fmt.Sprintf("the value %s of %s looks like a mask, which stands for a value in lists and logs; the answer is for this text, not for that value", value, what))
		}
	}
	for _, e := range q.options.Params {
		check(e.Key, e.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(q.options.Headers)) {
		for _, value := range q.options.Headers[name] {
			check(name, value)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(q.options.Metadata), func(a, b MetadataKey) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Path, b.Path))
	}) {
		check(key.Path, q.options.Metadata[key])
	}
	return hints
}
