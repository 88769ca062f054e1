// Package doorname lists the names of the doors. A name is the value of the rule
// parameter `door` and of the `door` label in metrics and logs, and the key of a
// door's settings. Settings, metrics, modes and the warnings about rules read this
// list; ARCHITECTURE.md says what else a new door needs.
package doorname

import "slices"

// The names of the doors.
const (
	ExtAuthz    = "extauthz"     // Envoy ext_authz over gRPC
	ExtAuthzWeb = "ext-authz"    // Envoy ext_authz over HTTP
	RateLimit   = "ratelimit"    // Envoy's rate limit service
	AuthRequest = "auth-request" // nginx auth_request
	ForwardAuth = "forward-auth" // Caddy, Traefik, HAProxy
	Accel       = "accel"        // nginx with X-Accel-Redirect
	Koala       = "koala"        // Koala's own API
	Middleware  = "middleware"   // net/http, in the program's process
	Program     = "program"      // Allow of package koalagate, without a protocol
)

// served lists the doors that the service serves, in the order of the manual.
var served = []string{ExtAuthz, ExtAuthzWeb, RateLimit, AuthRequest, ForwardAuth, Accel, Koala}

// InRules returns the names that the parameter door can have: all doors, and Program,
// whose callers state all parameters themselves.
func InRules() []string { return append(All(), Program) }

// All returns the names of all doors in the order of the manual. Program is none of them,
// because it reads no protocol.
func All() []string { return append(Served(), Middleware) }

// Served returns the names of the doors that the service serves, in the order of
// the manual: all but Middleware, which runs in the process of another program and
// has no settings here.
func Served() []string { return slices.Clone(served) }

// IsServed reports whether the service has a door with this name.
func IsServed(name string) bool { return slices.Contains(served, name) }
