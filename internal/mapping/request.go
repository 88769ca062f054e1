package mapping

// Door is an entry for callers. It is the parameter `door`, and a label in
// metrics and settings.
type Door string

// The doors.
const (
	ExtAuthz    Door = "extauthz"     // Envoy ext_authz, gRPC
	ExtAuthzWeb Door = "ext-authz"    // Envoy ext_authz, HTTP
	RateLimit   Door = "ratelimit"    // Envoy rate limit service
	AuthRequest Door = "auth-request" // nginx auth_request
	ForwardAuth Door = "forward-auth" // Caddy, Traefik, HAProxy
	Accel       Door = "accel"        // nginx, X-Accel-Redirect
	Koala       Door = "koala"        // Koala's own API
	Middleware  Door = "middleware"   // net/http in process
)

// Doors are all doors of the service, in the order of its manual.
func Doors() []Door {
	return []Door{ExtAuthz, ExtAuthzWeb, RateLimit, AuthRequest, ForwardAuth, Accel, Koala}
}

// Request is what arrived at a door, before anything of it is believed. For
// the HTTP doors it is the check call itself; Params finds the original
// request in it, by the rules of its door.
type Request struct {
	Door    Door
	Method  string
	Path    string // with its query, as it came
	Host    string
	Scheme  string
	Peer    string // the peer's address, with or without a port
	Headers Headers

	Context map[string]string // ext_authz: context_extensions
	Domain  string            // rate limit service
	Entries []Entry           // rate limit service: one descriptor's, in order
	Args    []Entry           // koala: query and form, in order

	Principal string // ext_authz: source.principal
	SNI       string // ext_authz: tls_session.sni
	// Metadata looks a value up in the gateway's dynamic metadata; nil where
	// there is none.
	Metadata func(namespace, path string) (string, bool)
}

// Entry is a key and its value, where order or repetition matters.
type Entry struct {
	Key   string
	Value string
}
