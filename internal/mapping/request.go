package mapping

// Request is what arrived at a door, before anything of it is believed. For
// the HTTP doors it is the check call itself; Params finds the original
// request in it, by the rules of its door.
type Request struct {
	Door    string // one of the names in doorname
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
