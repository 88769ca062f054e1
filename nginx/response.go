package nginx

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// The headers for the gateway, which do not reach the client.
const (
	headerStatus        = "X-Koala-Status"   // auth-request: the status for the client
	headerBody          = "X-Koala-Body"     // auth-request: the body for the client
	headerLocation      = "X-Koala-Location" // auth-request: the Location for the client
	headerAccel         = "X-Koala-Accel"    // accel, in the check: the location for an allowed request
	headerAccelRedirect = "X-Accel-Redirect"
	headerRemove        = "X-Envoy-Auth-Headers-To-Remove" // ext-authz: the headers that Envoy removes from the request
)

// The bounds of a reply's headers, in bytes: nginx turns a reply whose headers exceed
// its buffer into a 500, which may let the request through.
const (
	maxHeaderBytes = 1800 // our headers; with status line, date and length below 2048
	maxHeaderBody  = 1024 // X-Koala-Body, as part of these
)

// answer is the reply to one check.
type answer struct {
	server *server
	w      http.ResponseWriter
	check  *http.Request
	target string
	door   string // its name, "" if the path belongs to none
	begun  bool   // whether the reply has been sent
}

// write writes the answer of the decision of a question, or the answer of an error.
func (a *answer) write(q *door.Question, d *engine.Decision, err error) {
	switch {
	case err != nil:
		fault := door.FaultOf(err)
		fault.RequestID = q.RequestID()
		a.explain(fault)
	case d.Unavailable:
		a.fail()
	case d.Verdict == rules.Allow:
		a.allow(q, d)
	default:
		var buffer [24]rules.Header
		a.refuse(d.Verdict, a.refusal(d), d.ClientHeaders(buffer[:0], a.server.presentation))
	}
}

// explain answers a check that has no decision.
func (a *answer) explain(f door.Fault) {
	switch {
	case f.IsRequest():
		a.refuse(rules.Deny, f.Refusal(), nil)
		return
	case !f.IsCanceled():
		a.server.complaints.warn("check not decided", "door", a.door, "error", f.Err)
	}
	a.fail()
}

// refusal returns the answer for the client of the gateway. If the gateway would not
// treat its status as a refusal, the document names the status that is sent instead.
func (a *answer) refusal(d *engine.Decision) engine.Refusal {
	r := d.Refusal()
	if sent := a.refusalStatus(r.Status); a.door != doorname.AuthRequest && sent != r.Status {
		result := *d.Answers[d.Refuser].Result
		result.HTTPStatus = sent
		d.Answers[d.Refuser].Result = &result
		return d.Refusal()
	}
	return r
}

// allow allows the request. The reply includes the decision even if clients must not
// see it, because gateways pass it to the application.
func (a *answer) allow(q *door.Question, d *engine.Decision) {
	var buffer [15]rules.Header
	headers := buffer[:0]
	if a.door == doorname.Accel {
		target, ok := a.accelTarget()
		if !ok {
			a.problem(http.StatusForbidden, "the gateway requests a target that is not in accel_targets")
			return
		}
		headers = append(headers, rules.Header{Name: headerAccelRedirect, Value: target})
	} else {
		// Not at accel, where nginx copies it to the application's response, which
		// then would not be cached either.
		headers = append(headers, rules.Header{Name: "Cache-Control", Value: "no-store"})
	}
	shown := a.server.presentation
	shown.HideDecision = false
	headers = d.ClientHeaders(d.ApplicationHeaders(headers), shown)
	a.send(http.StatusOK, a.appendForwarded(headers, q), nil)
}

// appendForwarded appends the headers of [forward], with as many of their values as fit: clients
// may choose them, and must not displace a receipt. Those
// without a value are there with an empty one, which makes gateways drop the client's; Envoy
// would pass it on, and is given their names instead.
func (a *answer) appendForwarded(headers []rules.Header, q *door.Question) []rules.Header {
	const notFitting = "the answer to the gateway has no room for it"
	first := len(headers)
	headers = a.server.gate.Forwarded(headers, q)
	if len(headers) == first {
		return headers
	}
	room := maxHeaderBytes - len(headerRemove) - len(": \r\n")
	for i, h := range headers {
		if i >= first {
			h.Value = "" // each name is sent in any case
		}
		room -= sizeOf(h)
	}
	for i := first; i < len(headers); i++ {
		h := &headers[i]
		if room -= len(h.Value); room < 0 {
			room += len(h.Value)
			h.Value = ""
			a.server.gate.Unsent(q, h.Name, notFitting)
		}
	}
	if a.door != doorname.ExtAuthzWeb {
		return headers
	}
	var absent []string
	sent := slices.DeleteFunc(headers[first:], func(h rules.Header) bool {
		if h.Value == "" {
			absent = append(absent, h.Name)
		}
		return h.Value == ""
	})
	headers = headers[:first+len(sent)]
	if absent == nil {
		return headers
	}
	return append(headers, rules.Header{Name: headerRemove, Value: strings.Join(absent, ",")})
}

// sizeOf returns the bytes that a header takes in a reply.
func sizeOf(h rules.Header) int { return len(h.Name) + len(h.Value) + len(": \r\n") }

// accelTarget returns the location that nginx redirects an allowed request to, false if
// the gateway requests one that is not configured.
func (a *answer) accelTarget() (string, bool) {
	targets := a.server.accelTargets
	target, ok := mapping.HTTPHeaders(a.check.Header).Header("x-koala-accel")
	if !ok || target == "" {
		return targets[0], true
	}
	if slices.Contains(targets, target) {
		return target, true
	}
	a.server.complaints.warn("a gateway requests a target that is not in accel_targets", headerAccel, target, "peer", a.check.RemoteAddr)
	return "", false
}

// problem refuses a check for a reason other than a rule.
func (a *answer) problem(status int, detail string) {
	a.refuse(rules.Deny, engine.Problem(status, detail), nil)
}

// refuse answers with a refusal for the client of the gateway.
func (a *answer) refuse(v rules.Verdict, r engine.Refusal, headers []rules.Header) {
	if a.door == doorname.AuthRequest && len(r.Body) > maxHeaderBody {
		r = engine.Problem(r.Status, "") // a truncated document would be useless
	}
	headers = slices.DeleteFunc(door.Sendable(append(headers, rules.Header{Name: "Content-Type", Value: r.ContentType})), func(h rules.Header) bool {
		return strings.EqualFold(h.Name, headerAccelRedirect) // it would allow the request
	})
	// Content-Type was appended last, so that it overrides the entry's. It moves
	// to the front, because send omits the last headers if not all fit.
	last := len(headers) - 1
	headers = slices.Insert(headers[:last], 0, headers[last])
	if a.door == doorname.AuthRequest {
		a.refuseAuthRequest(v, r, headers)
		return
	}
	a.send(a.refusalStatus(r.Status), headers, r.Body)
}

// refuseAuthRequest sends the refusal in headers: auth_request only knows the statuses
// 401 and 403, and nginx closes the connection after a reply with a body.
func (a *answer) refuseAuthRequest(v rules.Verdict, r engine.Refusal, headers []rules.Header) {
	status := http.StatusForbidden
	switch {
	case wantsNativeStatus(a.target):
		status = a.refusalStatus(r.Status)
	case v == rules.Challenge, r.Status == http.StatusUnauthorized:
		status = http.StatusUnauthorized
	}
	for i := range headers {
		if strings.EqualFold(headers[i].Name, "Location") {
			headers[i].Name = headerLocation
		}
	}
	ours := [2]rules.Header{
		{Name: headerStatus, Value: strconv.Itoa(r.Status)},
		{Name: headerBody, Value: string(r.Body)},
	}
	a.send(status, slices.Insert(headers, 0, door.Sendable(ours[:])...), nil)
}

// refusalStatus returns status, or 403 if the gateway would not treat it as a
// refusal: gateways treat a 2xx as permission, and Envoy treats a 5xx as a failure,
// which its failure mode may allow.
func (a *answer) refusalStatus(status int) int {
	status = door.RefusalStatus(status)
	switch {
	case status < 300 && a.door != doorname.Accel,
		status >= 500 && a.door == doorname.ExtAuthzWeb:
		return http.StatusForbidden
	}
	return status
}

// fail answers a check that could not be decided with 503, and leaves the request to
// the gateway's failure mode. It is not a 500, which gateways use for faults of their
// own.
func (a *answer) fail() {
	if a.begun {
		return
	}
	if a.door == doorname.AuthRequest {
		a.send(http.StatusServiceUnavailable, nil, nil)
		return
	}
	r := engine.Problem(http.StatusServiceUnavailable, "")
	a.send(r.Status, []rules.Header{{Name: "Content-Type", Value: r.ContentType}}, r.Body)
}

// noLength is the Content-Length of a reply to HEAD, which net/http does not set. All
// replies share it, and net/http does not modify it.
var noLength = []string{"0"}

// send writes the reply, with as many of the headers as fit.
func (a *answer) send(status int, headers []rules.Header, body []byte) {
	a.begun = true
	to := a.w.Header()
	if !discardBody(a.w, a.check) {
		to.Set("Connection", "close")
	}
	// Names keep the spelling of the drafts, and all values share one slice.
	values := make([]string, 0, len(headers))
	total := 0
	for _, h := range headers {
		size := sizeOf(h)
		if total+size > maxHeaderBytes {
			continue
		}
		total += size
		values = append(values, h.Value)
		to[h.Name] = values[len(values)-1 : len(values) : len(values)]
	}
	if body == nil && a.check.Method == http.MethodHead {
		to["Content-Length"] = noLength
	}
	a.w.WriteHeader(status)
	if body != nil {
		_, _ = a.w.Write(body) // fails only if the connection is closed
	}
}
