package extauthz

import (
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// question is what one check needs on its way to the engine, kept for the
// next.
type question struct {
	asked   asked
	request mapping.Request
	params  rules.Params
	sets    [1]engine.Input
	call    engine.Call
	room    engine.Scratch
	reply   []byte // in wire form
}

// UnmarshalBinary reads a CheckRequest in wire form.
func (q *question) UnmarshalBinary(request []byte) error { return q.asked.read(request) }

// read takes from a check what the mapping needs.
func (q *question) read() {
	a := &q.asked
	q.request = mapping.Request{
		Door: doorname.ExtAuthz, Method: a.method, Path: a.path, Host: a.host, Scheme: a.scheme, Peer: a.peer,
		Headers: a, Context: a.context, Principal: a.principal, SNI: a.sni,
	}
	if len(a.metadata)+len(a.routeMetadata) > 0 {
		q.request.Metadata = a.lookup
	}
}

// isGRPC tells whether the client speaks gRPC, as Envoy does.
func (a *asked) isGRPC() bool {
	kind, _ := a.Header("content-type")
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}

// ask is the call that puts the question; fault is what the mapping found wrong
// with it.
func (q *question) ask(set *rules.Set, fault error) *engine.Call {
	q.sets[0] = engine.Input{Params: &q.params, Hits: 1}
	q.call = engine.Call{Rules: set, Door: doorname.ExtAuthz, Op: engine.Take, Inputs: q.sets[:], Fault: fault, Scratch: &q.room}
	return &q.call
}

// forget drops what q holds of a check and keeps the memory.
func (q *question) forget() {
	const commonReply = 64 << 10
	if cap(q.reply) > commonReply {
		q.reply = nil
	}
	q.params.Reset()
	q.asked.forget()
	q.request, q.call = mapping.Request{}, engine.Call{}
}
