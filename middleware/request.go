package middleware

import (
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// question is what one request needs on its way to the engine, kept for the
// next.
type question struct {
	request mapping.Request
	params  rules.Params
	sets    [1]engine.Input
	call    engine.Call
	room    engine.Scratch
}

// read takes from a request what the mapping needs. The target is as it came:
// a router before this one may have cut r.URL, and has decoded it.
func (q *question) read(r *http.Request) {
	q.request = mapping.Request{
		Door:    doorname.Middleware,
		Method:  r.Method,
		Path:    r.RequestURI,
		Host:    r.Host,
		Scheme:  "http",
		Peer:    r.RemoteAddr,
		Headers: mapping.HTTPHeaders(r.Header),
	}
	if !strings.HasPrefix(r.RequestURI, "/") {
		q.request.Path = r.URL.RequestURI()
	}
	if r.TLS != nil {
		q.request.Scheme = "https"
	}
}

// ask is the call that puts the question; fault is what the mapping found wrong
// with it.
func (q *question) ask(set *rules.Set, fault error) *engine.Call {
	q.sets[0] = engine.Input{Params: &q.params, Hits: 1}
	q.call = engine.Call{Rules: set, Door: doorname.Middleware, Op: engine.Take, Inputs: q.sets[:], Fault: fault, Scratch: &q.room}
	return &q.call
}

// release keeps q for another request, without what it holds of this one.
func (s *server) release(q *question) {
	q.params.Reset()
	q.request, q.call = mapping.Request{}, engine.Call{}
	s.questions.Put(q)
}
