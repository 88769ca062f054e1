package middleware

import (
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// question is the memory of one request on its way to the engine, reused by later
// ones.
type question struct {
	request    mapping.Request
	params     rules.Params
	inputs     [1]engine.Input
	engineCall engine.Call
	scratch    engine.Scratch
}

// read reads the parts of a request that the mapping needs. The target is that of
// the request line: an earlier router may have shortened r.URL, and has decoded it.
func (q *question) read(r *http.Request) {
	q.request = mapping.Request{
		Door:    Door,
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

// call returns the call for the engine. fault is the error of the mapping, or nil.
func (q *question) call(set *rules.Set, fault error) *engine.Call {
	q.inputs[0] = engine.Input{Params: &q.params}
	q.engineCall = engine.Call{Rules: set, Door: Door, Op: engine.Take, Inputs: q.inputs[:], Fault: fault, Scratch: &q.scratch}
	return &q.engineCall
}

// release keeps q for a later request, without references to this one.
func (s *server) release(q *question) {
	q.params.Reset()
	q.request, q.engineCall = mapping.Request{}, engine.Call{}
	s.questions.Put(q)
}
