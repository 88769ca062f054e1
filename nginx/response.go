package nginx

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// The headers that speak to a gateway alone.
const (
	headerStatus        = "X-Koala-Status"   // auth-request: the status for the client
	headerBody          = "X-Koala-Body"     // auth-request: the body for the client
	headerLocation      = "X-Koala-Location" // auth-request: where the client is sent
	headerAccel         = "X-Koala-Accel"    // accel, in the check: where an allowed request goes
	headerAccelRedirect = "X-Accel-Redirect"
)

// The bounds of an answer's headers: nginx makes a 500 of an answer whose
// headers outgrow its buffer, and such a 500 may let the request through.
const (
	maxHeaderBytes = 1800 // of ours; status line, date, and length come on top, to below 2048
	maxHeaderBody  = 1024 // of these, X-Koala-Body
)

// answer is the reply to one check.
type answer struct {
	server *server
	w      http.ResponseWriter
	check  *http.Request
	target string
	door   string // "" where the path is none of ours
	begun  bool
}

// give answers with a decision, or with what stands in its place.
func (a *answer) give(d *engine.Decision, err error) {
	if err != nil {
		a.undecided(err)
		return
	}
	a.decided(d)
}

func (a *answer) undecided(err error) {
	var refusal *mapping.Refusal
	switch {
	case errors.As(err, &refusal):
		a.problem(refusal.Status, refusal.Reason)
	case engine.IsInvalid(err):
		a.problem(http.StatusBadRequest, err.Error())
	case errors.Is(err, context.Canceled):
		a.fail() // nobody reads it
	default:
		a.server.complaints.warn("a check was not decided", "door", a.door, "error", err)
		a.fail()
	}
}

func (a *answer) decided(d *engine.Decision) {
	switch {
	case d.Unavailable:
		a.fail()
	case d.Verdict == rules.Allow:
		a.allow(d)
	default:
		var room [24]rules.Header
		a.refuse(d.Verdict, a.refusal(d), d.ClientHeaders(room[:0], a.server.presentation))
	}
}

// refusal is what the client of the gateway is to get. Where its status would be
// taken for anything but a refusal, the document names the one that is sent.
func (a *answer) refusal(d *engine.Decision) engine.Refusal {
	r := d.Refusal()
	if sent := a.refusing(r.Status); a.door != doorname.AuthRequest && sent != r.Status {
		seen := *d.Answers[d.Refuser].Result
		seen.HTTPStatus = sent
		d.Answers[d.Refuser].Result = &seen
		return d.Refusal()
	}
	return r
}

// allow lets the request through. The decision is told even where clients are
// not to know it: a gateway hands it to the application.
func (a *answer) allow(d *engine.Decision) {
	var room [14]rules.Header
	headers := room[:0]
	if a.door == doorname.Accel {
		target, ok := a.accelTarget()
		if !ok {
			a.problem(http.StatusForbidden, "the gateway asks for a target that is not in accel_targets")
			return
		}
		headers = append(headers, rules.Header{Name: headerAccelRedirect, Value: target})
	} else {
		// Not at accel: nginx hands it on with the application's answer, which
		// then is not cached either.
		headers = append(headers, rules.Header{Name: "Cache-Control", Value: "no-store"})
	}
	shown := a.server.presentation
	shown.HideDecision = false
	a.send(http.StatusOK, d.ClientHeaders(headers, shown), nil)
}

// accelTarget is where nginx is to send an allowed request.
func (a *answer) accelTarget() (string, bool) {
	targets := a.server.accelTargets
	asked, ok := mapping.HTTPHeaders(a.check.Header).Header("x-koala-accel")
	if !ok || asked == "" {
		return targets[0], true
	}
	if slices.Contains(targets, asked) {
		return asked, true
	}
	a.server.complaints.warn("a gateway asks for a target that is not in accel_targets", headerAccel, asked, "peer", a.check.RemoteAddr)
	return "", false
}

// problem refuses a check that no rule has refused.
func (a *answer) problem(status int, detail string) {
	a.refuse(rules.Deny, engine.Problem(status, detail), nil)
}

// refuse answers with what the client of the gateway is to get.
func (a *answer) refuse(v rules.Verdict, r engine.Refusal, headers []rules.Header) {
	if a.door == doorname.AuthRequest && len(r.Body) > maxHeaderBody {
		r = engine.Problem(r.Status, "") // half a document is none
	}
	headers = slices.DeleteFunc(engine.Sendable(append(headers, rules.Header{Name: "Content-Type", Value: r.ContentType})), func(h rules.Header) bool {
		return strings.EqualFold(h.Name, headerAccelRedirect) // it would let the request through
	})
	// The type was said last, lest the entry's own is another one, and goes first:
	// of headers that do not all fit it is not the one to be left out.
	last := len(headers) - 1
	headers = slices.Insert(headers[:last], 0, headers[last])
	if a.door == doorname.AuthRequest {
		a.refuseAuthRequest(v, r, headers)
		return
	}
	a.send(a.refusing(r.Status), headers, r.Body)
}

// refuseAuthRequest says in headers what other gateways pass on as it stands:
// auth_request knows 401 and 403 alone, and a body costs nginx the connection.
func (a *answer) refuseAuthRequest(v rules.Verdict, r engine.Refusal, headers []rules.Header) {
	status := http.StatusForbidden
	switch {
	case asksForNative(a.target):
		status = a.refusing(r.Status)
	case v == rules.Challenge:
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
	a.send(status, slices.Insert(headers, 0, engine.Sendable(ours[:])...), nil)
}

// refusing is status, or 403 where the gateway would take it for anything but
// a refusal: a 2xx for leave to pass, and Envoy a 5xx for a failed service,
// which its failure mode may let through.
func (a *answer) refusing(status int) int {
	switch {
	case status < 200 || status > 599,
		status < 300 && a.door != doorname.Accel,
		status >= 500 && a.door == doorname.ExtAuthzWeb:
		return http.StatusForbidden
	}
	return status
}

// fail answers a check that could not be decided, and leaves to the gateway
// what holds then. It is a 503: a 500 is what gateways make of faults of their
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

// noLength is the Content-Length of an answer to HEAD, which net/http does not
// give one. It is shared, and net/http leaves it as it is.
var noLength = []string{"0"}

// send writes the reply, with as many of the headers as fit.
func (a *answer) send(status int, headers []rules.Header, body []byte) {
	a.begun = true
	to := a.w.Header()
	if !passOverBody(a.w, a.check) {
		to.Set("Connection", "close")
	}
	// Names stay as the drafts spell them, and their values share one slice.
	values := make([]string, 0, len(headers))
	total := 0
	for _, h := range headers {
		size := len(h.Name) + len(h.Value) + len(": \r\n")
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
		_, _ = a.w.Write(body) // fails only if the gateway has gone
	}
}
