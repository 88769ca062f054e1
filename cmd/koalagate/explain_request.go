package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// inquiry is what explain is asked: parameters as they are, or a request at a
// door.
type inquiry struct {
	request string
	headers []string
	door    choice
	peer    string
	envoy   envoyFacts
	hops    int
	paths   choice // what holds for malformed ones
	hits    uint64

	given  []mapping.Entry  // NAME=VALUE
	call   *mapping.Request // nil where the parameters are given
	method string
	target string
}

// doors are the doors that a request can be explained at, and what NAME=VALUE
// is there.
var doors = []struct {
	door  string
	given string
}{
	{doorname.ExtAuthz, "context extension"},
	{doorname.ExtAuthzWeb, ""},
	{doorname.AuthRequest, "argument of the check"},
	{doorname.ForwardAuth, "argument of the check"},
	{doorname.Accel, "argument of the check"},
	{doorname.RateLimit, "descriptor"},
	{doorname.Koala, "argument"},
	{doorname.Middleware, "parameter of the program"},
}

func doorNames() []string {
	names := make([]string, len(doors))
	for i, d := range doors {
		names[i] = d.door
	}
	return names
}

// read makes out what is asked.
func (q *inquiry) read(args []string) error {
	seen := make(map[string]bool)
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch {
		case !ok || name == "":
			return fmt.Errorf("%q is no parameter; want name=value", arg)
		case seen[name]:
			return fmt.Errorf("the parameter %s is given twice", name)
		}
		seen[name] = true
		q.given = append(q.given, mapping.Entry{Key: name, Value: value})
	}
	if q.request == "" && q.door.value == "" {
		if len(q.headers) > 0 || q.peer != "" || q.envoy.any() || q.hops != 0 {
			return errors.New("headers, a peer and what else a gateway says belong to a request; give --request 'METHOD /path' or --door")
		}
		return nil
	}
	return q.readCall()
}

// readCall makes the call that a gateway would make for the request.
func (q *inquiry) readCall() error {
	door := q.door.value
	if door == "" {
		door = doorname.ExtAuthz
	}
	headers, err := parseHeaders(q.headers)
	if err != nil {
		return err
	}
	q.call = &mapping.Request{Door: door, Peer: q.peer, Headers: mapping.HTTPHeaders(headers)}
	if err := q.envoy.say(q.call); err != nil {
		return err
	}
	if door == doorname.RateLimit || door == doorname.Koala {
		if q.request != "" || q.peer != "" || len(headers) > 0 || q.hops != 0 {
			return fmt.Errorf("the door %s sees no request, no headers and no peer; give what it sees as NAME=VALUE", door)
		}
		return nil
	}
	if err := q.readPeer(headers); err != nil {
		return err
	}
	if err := q.readLine(); err != nil {
		return err
	}
	if door == doorname.ExtAuthzWeb && len(q.given) > 0 {
		return errors.New("at ext-authz the gateway says parameters in headers; give -H 'X-Koala-Param-NAME: VALUE'")
	}
	call, target := q.call, q.target
	call.Host, call.Scheme = headers.Get("Host"), "http"
	if u, err := url.Parse(q.target); err == nil && u.Host != "" {
		call.Host, call.Scheme = u.Host, u.Scheme
		_, behind, _ := strings.Cut(q.target, "://")
		target = strings.TrimPrefix(behind, u.Host)
	}
	return describe(call, q.method, target, headers)
}

// readPeer checks who is said to ask.
func (q *inquiry) readPeer(headers http.Header) error {
	if _, err := netip.ParseAddr(q.peer); err != nil && q.peer != "" {
		if _, err := netip.ParseAddrPort(q.peer); err != nil {
			return fmt.Errorf("%q is no address of a peer; want one as 203.0.113.7 or 2001:db8::7", q.peer)
		}
	}
	switch door := q.call.Door; {
	case q.hops < 0 || q.hops > maxHops:
		return fmt.Errorf("--trusted-hops %d is out of range; want 0 … %d", q.hops, maxHops)
	case q.hops == 0:
	case door != doorname.ForwardAuth && door != doorname.ExtAuthzWeb && door != doorname.Middleware:
		return fmt.Errorf("at %s nobody reads X-Forwarded-For; take --trusted-hops out", door)
	case headers.Get("X-Forwarded-For") == "":
		return errors.New("trusted hops are passed over in X-Forwarded-For; give -H 'X-Forwarded-For: CLIENT, PROXY'")
	}
	return nil
}

// maxHops is the most that the service's trusted_hops may be.
const maxHops = 32

// readLine reads METHOD TARGET, and what else a line of a log may have.
func (q *inquiry) readLine() error {
	words := strings.Fields(q.request)
	if len(words) == 3 && strings.HasPrefix(words[2], "HTTP/") {
		words = words[:2]
	}
	if len(words) != 2 {
		return fmt.Errorf("%q is no request; give --request 'METHOD /path', with %%20 for a blank in the path", q.request)
	}
	q.method, q.target = words[0], words[1]
	return nil
}

// describe puts the client's request into the call as the gateways of its door
// do. All but Envoy's gRPC say the client's address, which cannot be guessed.
func describe(call *mapping.Request, method, target string, headers http.Header) error {
	say := func(name, value string) {
		if value != "" && headers.Get(name) == "" {
			headers.Set(name, value)
		}
	}
	switch call.Door {
	case doorname.AuthRequest, doorname.Accel:
		say("X-Original-Method", method)
		say("X-Original-URI", target)
		say("X-Real-IP", call.Peer)
	case doorname.ForwardAuth:
		say("X-Forwarded-Method", method)
		say("X-Forwarded-Uri", target)
		say("X-Forwarded-For", call.Peer)
	case doorname.ExtAuthzWeb:
		call.Method, call.Path = method, "/v1/ext-authz"+target
		say("X-Forwarded-For", call.Peer)
	default: // those that see the request and its connection
		call.Method, call.Path = method, target
		return nil
	}
	say("X-Forwarded-Host", call.Host)
	say("X-Forwarded-Proto", call.Scheme)
	if headers.Get("X-Real-IP") == "" && headers.Get("X-Forwarded-For") == "" {
		return fmt.Errorf("at %s the gateway says who asks; give --peer ADDRESS", call.Door)
	}
	return nil
}

func parseHeaders(list []string) (http.Header, error) {
	headers := make(http.Header)
	for _, h := range list {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("%q is no header; want 'NAME: VALUE'", h)
		}
		headers.Add(name, strings.TrimSpace(value))
	}
	return headers, nil
}

// told is the request as the explanation repeats it, nil if none was asked.
func (q *inquiry) told() *explainedRequest {
	if q.call == nil {
		return nil
	}
	return &explainedRequest{Door: q.call.Door, Method: q.method, Target: q.target}
}

// params are the parameters of the request, and what each was made of.
func (q *inquiry) params(set *rules.Set) (*rules.Params, map[string]string, error) {
	if q.call == nil {
		params := new(rules.Params)
		for _, e := range q.given {
			params.Set(e.Key, e.Value)
		}
		return params, nil, nil
	}
	o := origins{call: q.call, options: mapping.Options{TrustedHops: q.hops, KeepMalformed: q.paths.value == "keep"}, given: q.given, params: new(rules.Params), of: make(map[string]string)}
	return o.params, o.of, o.find(set)
}
