// Package mapping turns a request, as a gateway describes it, into the parameters of
// rules.
//
// Params reads the sources in this order: the parameters that every request has
// (derived), [params], [routes], the gateway's context, the static arguments of the
// check's URL, and X-Koala-Param headers. A later source overrides an earlier one; a
// blank value is no value and overrides nothing. The outcomes of the verification of
// tokens come last, so that nothing overrides them.
//
// # Families
//
// Each door trusts one family of headers, as package doorname declares it, and ignores all
// others, which a client may have sent:
//
//	Original   X-Original-Method, X-Original-URI (or -URL), X-Real-IP;
//	           X-Forwarded-Host, X-Forwarded-Proto
//	Forwarded  X-Forwarded-Method, -Uri, -For; -Host, -Proto
//	Check      the call's own method, path and Host; X-Forwarded-For, X-Forwarded-Proto
//	Fields     the request's own fields; of X-Forwarded-For only what gateways before
//	           the program append
//	Nothing    a domain and descriptor entries, or arguments: no request, and so no route
//	           and no client address
//
// A check without a header that its family requires is refused with 403. A required
// address that cannot be parsed counts as missing: limits by address must not silently
// stop working when a gateway does not send the address of the client.
//
// # Addresses
//
// X-Forwarded-For is read from the right after skipping Options.TrustedHops elements.
// A list with too few elements counts as a missing header. Empty elements are counted,
// because skipping an element that a gateway left empty would select one that the
// client wrote. If the address is the peer of a connection (extauthz, middleware) and
// cannot be parsed, such as the address of a unix socket, the parameter ip is absent, and the
// request is refused if rules use ip or a parameter from client-ip that nothing else
// supplies.
//
// # Methods
//
// Methods are in upper case. HTTP distinguishes cases, but gateways pass on `post`, and
// some applications accept it as POST. Headers that override the method, such as
// X-HTTP-Method-Override, are not read: gateways must remove them.
//
// # Hosts
//
// A host that is neither a name nor an address, with or without a port, is malformed:
// programs disagree about which part of `name:80:80` is the host.
//
// # Targets
//
// The absolute form (`GET http://host/path`) is read as its path. Its host must be that
// of the Host header, because some programs use the one and others the other; a check
// without X-Forwarded-Host has no header to compare. `OPTIONS *` has the path `*` and
// matches no route. A CONNECT to `host:port` has neither path nor route. Any other target
// without a leading slash is read as if it had one. A target with a fragment is
// malformed, because applications disagree about where its path ends.
package mapping
