package mapping

// Request is a request as it arrived at a door, before any part of it is trusted. At
// the HTTP doors it is the check itself; Params extracts the original request from it
// by the rules of the door.
type Request struct {
	Door    string // one of the names in doorname
	Method  string
	Path    string // with its query, as received
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
	// Metadata returns a value of the gateway's dynamic metadata. Nil means that
	// there is none.
	Metadata func(namespace, path string) (string, bool)
}

// Entry is a key and its value in a list whose order and duplicates matter.
type Entry struct {
	Key   string
	Value string
}
