// Package doorname declares the doors: their names, and what each receives from its
// gateways. A name is the value of the rule parameter `door` and of the `door` label in
// metrics and logs, and the key of a door's settings. Settings, metrics, modes, the mapping
// of requests, the warnings about rules, the decision log and explanations ask the
// declaration, so that a door is declared once; ARCHITECTURE.md says what else a new door
// needs.
package doorname

// The names of the doors.
const (
	ExtAuthz    = "extauthz"     // Envoy ext_authz over gRPC
	ExtAuthzWeb = "ext-authz"    // Envoy ext_authz over HTTP
	RateLimit   = "ratelimit"    // Envoy's rate limit service
	Quota       = "rlqs"         // Envoy's rate limit quota service
	AuthRequest = "auth-request" // nginx auth_request
	ForwardAuth = "forward-auth" // Caddy, Traefik, HAProxy
	Accel       = "accel"        // nginx with X-Accel-Redirect
	Koala       = "koala"        // Koala's own API
	Middleware  = "middleware"   // net/http, in the program's process
	Program     = "program"      // Allow of package koalagate, without a protocol
)

// Reads is the part of a call that describes the client's request.
type Reads uint8

// The parts that doors read. A door reads no other part: a client could have sent it.
const (
	Nothing   Reads = iota // no part: the callers name the parameters
	Fields                 // the fields of a message, or of the request itself
	Original               // X-Original-Method, X-Original-URI or X-Original-URL, X-Real-IP
	Forwarded              // X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-For
	Check                  // the method, the path below a prefix and the host of the check
)

// Adds is the part of a call that adds parameters by name.
type Adds uint8

// The parts that add parameters.
const (
	None      Adds = iota // no part
	Context               // parameters that the configuration or the program sets for a route
	Query                 // the arguments of the check's URL
	Entries               // the entries of a descriptor or of a bucket id, beside its domain
	Arguments             // the arguments of the call
	Own                   // the program states all parameters itself, and makes no request
)

// Door is the declaration of a door. The zero value is an unknown door, which reads
// nothing.
type Door struct {
	Name string
	// Text says for people who calls the door.
	Text string
	// Gateways are words in lower case that may be mistaken for the name of the door.
	Gateways []string

	Reads Reads
	Adds  Adds
	// Origin names the part that Adds, in explanations.
	Origin string
	// ParamHeaders reports that X-Koala-Param headers come from the gateway. Elsewhere
	// they come from the client.
	ParamHeaders bool
	// Attributes reports that the door receives Envoy's metadata, principal and SNI.
	Attributes bool
	// Hops reports that gateways in front append to X-Forwarded-For, whose elements
	// trusted_hops counts.
	Hops bool
	// Placeholders reports that the gateways leave placeholders {…} without a value.
	Placeholders bool
	// JoinedCookies reports that the gateways join Cookie headers by commas.
	JoinedCookies bool
	// OnlyUTF8 reports that answers cannot hold text that is not UTF-8.
	OnlyUTF8 bool
	// InProcess reports that the door runs in the program that answers the request, and
	// reads paths and cookies as that program does.
	InProcess bool
	// RefusesExcess reports that the door refuses numbers of hits above the maximum.
	RefusesExcess bool
	// NoReports reports that no gateway says at the door how a request ended.
	NoReports bool
	// Shares reports that the gateways decide by themselves, with shares of limits that
	// the door assigns: its rules need lease.
	Shares bool
	// Timeout is the time in ms for which the gateways wait for an answer unless they are
	// configured otherwise, and Filter the part of them that waits; 0 for an unknown time.
	Timeout int64
	Filter  string
}

// The doors that the service serves, in the order of the manual.
var served = [...]Door{
	{
		Name: ExtAuthz, Text: "Envoy, ext_authz over gRPC", Gateways: []string{"envoy", "istio"},
		Reads: Fields, Adds: Context, Origin: "context extension", Attributes: true, OnlyUTF8: true,
		Timeout: 200, Filter: "Envoy's ext_authz filter",
	},
	{
		Name: ExtAuthzWeb, Text: "Envoy, ext_authz over HTTP",
		Reads: Check, ParamHeaders: true, Hops: true, JoinedCookies: true,
		Timeout: 200, Filter: "Envoy's ext_authz filter",
	},
	{
		Name: RateLimit, Text: "Envoy rate limit service",
		Adds: Entries, Origin: "descriptor", RefusesExcess: true, OnlyUTF8: true,
		Timeout: 20, Filter: "Envoy's rate limit filter",
	},
	{
		Name: Quota, Text: "Envoy rate limit quota service",
		Adds: Entries, Origin: "bucket id", NoReports: true, Shares: true,
	},
	{
		Name: AuthRequest, Text: "nginx auth_request", Gateways: []string{"ingress-nginx", "nginx"},
		Reads: Original, Adds: Query, Origin: "argument of the check", ParamHeaders: true,
	},
	{
		Name: ForwardAuth, Text: "Caddy, HAProxy, Traefik", Gateways: []string{"apisix", "caddy", "haproxy", "traefik"},
		Reads: Forwarded, Adds: Query, Origin: "argument of the check", ParamHeaders: true,
		Hops: true, Placeholders: true, NoReports: true,
	},
	{
		Name: Accel, Text: "nginx X-Accel",
		Reads: Original, Adds: Query, Origin: "argument of the check", ParamHeaders: true,
	},
	{Name: Koala, Text: "Koala's API", Adds: Arguments, Origin: "argument"},
}

// The doors in the processes of other programs, which have no settings in the service.
var (
	middleware = Door{
		Name: Middleware, Text: "Go programs",
		Reads: Fields, Adds: Context, Origin: "parameter of the program", Hops: true, InProcess: true,
	}
	program = Door{Name: Program, Text: "Go programs, without a request", Adds: Own}
)

// unknown is the door of all other names.
var unknown Door

// Of returns the door of a name, which nobody changes; the zero Door for an unknown name.
func Of(name string) *Door {
	for i := range served {
		if served[i].Name == name {
			return &served[i]
		}
	}
	switch name {
	case Middleware:
		return &middleware
	case Program:
		return &program
	}
	return &unknown
}

// NamesParams reports whether the callers of the door name the parameters of rules. Such
// a door receives neither a request nor an address.
func (d *Door) NamesParams() bool { return d.IsKnown() && d.Reads == Nothing }

// Forwards reports whether the gateways of the door give applications headers of koalagate's
// answer.
func (d *Door) Forwards() bool { return d.Reads != Nothing || d.Adds == Entries && !d.Shares }

// IsKnown reports whether there is such a door.
func (d *Door) IsKnown() bool { return d.Name != "" }

// SetsAll reports whether the callers of the door set all parameters, those too that other
// doors derive from requests.
func (d *Door) SetsAll() bool { return d.Adds == Arguments || d.Adds == Own }

// InRules returns the names that the parameter door can have: all doors, and Program,
// whose callers state all parameters themselves.
func InRules() []string { return append(All(), Program) }

// All returns the names of all doors in the order of the manual. Program is none of them,
// because it reads no protocol.
func All() []string { return append(Served(), Middleware) }

// Served returns the names of the doors that the service serves, in the order of
// the manual: all but Middleware, which runs in the process of another program and
// has no settings here.
func Served() []string {
	names := make([]string, len(served), len(served)+2)
	for i := range served {
		names[i] = served[i].Name
	}
	return names
}

// IsServed reports whether the service has a door with this name.
func IsServed(name string) bool {
	for i := range served {
		if served[i].Name == name {
			return true
		}
	}
	return false
}

// Misnamed returns the door for a gateway whose name stands for the name of a door, "" if
// there is none. The word is in lower case.
func Misnamed(word string) string {
	for i := range served {
		for _, gateway := range served[i].Gateways {
			if gateway == word {
				return served[i].Name
			}
		}
	}
	return ""
}
