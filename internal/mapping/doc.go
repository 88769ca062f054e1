// Package mapping turns what a gateway says of a request into the parameters
// that rules speak of.
//
// Params walks the sources from the weakest to the strongest: what every
// request has (derived), [params], [routes], the gateway's context, the static
// arguments of the check's URL, and X-Koala-Param headers. A later one
// overrides an earlier one; a blank value is no value and overrides nothing.
//
// # Families
//
// Each door believes one family of headers and looks at no other, whatever
// else a client managed to send along:
//
//	auth-request, accel  X-Original-Method, X-Original-URI (or -URL), X-Real-IP;
//	                     X-Forwarded-Host, X-Forwarded-Proto
//	forward-auth         X-Forwarded-Method, -Uri, -For; -Host, -Proto
//	ext-authz            the call's own method, path and Host;
//	                     X-Forwarded-For, X-Forwarded-Proto
//	extauthz, middleware the request's own fields
//	ratelimit            domain and descriptor entries; no request, no address
//	koala                query and form; no original request, so no route and
//	                     no client address either
//
// A check without a header that its family requires is refused with 403. A
// required address that cannot be read counts as missing: where a gateway
// fails to say who asks, limits by address must not silently stop.
//
// # Addresses
//
// X-Forwarded-For is read from the right, less Options.TrustedHops, and never
// beyond its left end: too few hops are a missing header. Empty elements keep
// their place in the row, since skipping one that a gateway left empty would
// promote what the client wrote. Where the address is the peer of a connection
// (extauthz, middleware) one that cannot be read, such as a unix socket, is
// absent.
//
// # Targets
//
// The absolute form (`GET http://host/path`) is read as its path; the host is
// the one of the header, as gateways rewrite it. `OPTIONS *` has the path `*`
// and meets no route. A CONNECT to `host:port` has neither path nor route. A
// target that is none of these and lacks its first slash is read as if it had
// one. One with a fragment is malformed: applications differ in where it leaves
// the path.
package mapping
