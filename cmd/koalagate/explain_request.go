package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/koalagate/koalagate/mapping"
	"github.com/koalagate/koalagate/rules"
)

// inquiry is what explain is asked: parameters as they are, or a request at a
// door.
type inquiry struct {
	request string
	headers []string
	door    choice
	peer    string
	hits    uint64

	given  []mapping.Entry  // NAME=VALUE
	call   *mapping.Request // nil where the parameters are given
	method string
	target string
}

// doors are the doors that a request can be explained at, and what NAME=VALUE
// is there.
var doors = []struct {
	door  mapping.Door
	given string
}{
	{mapping.ExtAuthz, "context extension"},
	{mapping.ExtAuthzWeb, ""},
	{mapping.AuthRequest, "argument of the check"},
	{mapping.ForwardAuth, "argument of the check"},
	{mapping.Accel, "argument of the check"},
	{mapping.RateLimit, "descriptor"},
	{mapping.Koala, "argument"},
}

func doorNames() []string {
	names := make([]string, len(doors))
	for i, d := range doors {
		names[i] = string(d.door)
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
		if len(q.headers) > 0 || q.peer != "" {
			return errors.New("headers and a peer belong to a request; give --request 'METHOD /path' or --door")
		}
		return nil
	}
	return q.readCall()
}

// readCall makes the call that a gateway would make for the request.
func (q *inquiry) readCall() error {
	door := mapping.Door(q.door.value)
	if door == "" {
		door = mapping.ExtAuthz
	}
	headers, err := parseHeaders(q.headers)
	if err != nil {
		return err
	}
	q.call = &mapping.Request{Door: door, Peer: q.peer, Headers: mapping.HTTPHeaders(headers)}
	if door == mapping.RateLimit || door == mapping.Koala {
		if q.request != "" || q.peer != "" {
			return fmt.Errorf("the door %s sees no request and no peer; give what it sees as NAME=VALUE", door)
		}
		return nil
	}
	var ok bool
	if q.method, q.target, ok = strings.Cut(q.request, " "); !ok {
		return fmt.Errorf("%q is no request; give --request 'METHOD /path'", q.request)
	}
	if door == mapping.ExtAuthzWeb && len(q.given) > 0 {
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

// describe puts the client's request into the call as the gateways of its door
// do. All but Envoy's gRPC say the client's address, which cannot be guessed.
func describe(call *mapping.Request, method, target string, headers http.Header) error {
	say := func(name, value string) {
		if value != "" && headers.Get(name) == "" {
			headers.Set(name, value)
		}
	}
	switch call.Door {
	case mapping.AuthRequest, mapping.Accel:
		say("X-Original-Method", method)
		say("X-Original-URI", target)
		say("X-Real-IP", call.Peer)
	case mapping.ForwardAuth:
		say("X-Forwarded-Method", method)
		say("X-Forwarded-Uri", target)
		say("X-Forwarded-For", call.Peer)
	case mapping.ExtAuthzWeb:
		call.Method, call.Path = method, "/v1/ext-authz"+target
		say("X-Forwarded-For", call.Peer)
	default:
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
		if name = strings.TrimSpace(name); !ok || name == "" {
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
	return &explainedRequest{Door: string(q.call.Door), Method: q.method, Target: q.target}
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
	o := origins{call: q.call, given: q.given, params: new(rules.Params), of: make(map[string]string)}
	return o.params, o.of, o.find(set)
}
