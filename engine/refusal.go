package engine

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/rules"
)

// Refusal is the HTTP response to the client of a refused request.
type Refusal struct {
	Status      int    // HTTP status
	ContentType string // of the body
	Body        []byte
}

// quotaExceeded is the problem type of draft-ietf-httpapi-ratelimit-headers-10.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// problem is a problem document of RFC 9457.
type problem struct {
	kind      string
	title     string
	status    int
	detail    string        // "" for none
	violated  *Quota        // nil unless a counting rule refused
	challenge *rules.Result // the entry with the captcha; nil for none
	requestID string        // "" for none
}

// Refusal returns the response to the client of a refused request. Its body is
// valid as long as the decision, until the next call of Refusal. If no input is
// refused, as in the zero Decision, it is a 503. A problem document has the identifier
// of the request, if the call has an Origin.
func (d *Decision) Refusal() Refusal {
	if d == nil || d.Unavailable || d.Refuser < 0 || d.Refuser >= len(d.Answers) {
		return Problem(http.StatusServiceUnavailable, "")
	}
	id := ""
	if d.origin != nil {
		id = d.origin.RequestID()
	}
	r := d.Answers[d.Refuser].refusal(d.document[:0], id)
	d.document = r.Body
	return r
}

// Problem returns the refusal of a request that no rule refused, for example because it is
// malformed. The body is a problem document of RFC 9457; detail may be empty. For
// koalagate's own programs, may change.
func Problem(status int, detail string) Refusal { return ProblemOf(status, detail, "") }

// ProblemOf is Problem for the request with this identifier, which must be valid or empty.
// For koalagate's own programs, may change.
func ProblemOf(status int, detail, requestID string) Refusal {
	p := problem{kind: "about:blank", title: title(status), status: status, detail: detail, requestID: requestID}
	return p.refusal(nil)
}

func (a *Answer) refusal(b []byte, requestID string) Refusal {
	if a.Result == nil {
		return ProblemOf(http.StatusServiceUnavailable, "", requestID)
	}
	status := a.status()
	if a.Result.Body != "" {
		return Refusal{Status: status, ContentType: contentType(a.Result), Body: append(b, a.Result.Body...)}
	}
	doc := problem{kind: "about:blank", title: title(status), status: status, detail: a.Result.ErrMsg, requestID: requestID}
	switch {
	case a.Verdict == rules.Challenge:
		doc.challenge = a.Result
	case a.overLimit():
		doc.kind, doc.title, doc.violated = quotaExceeded, "Quota exceeded", &a.Quota
	}
	return doc.refusal(b)
}

// status returns the HTTP status for the client: the entry's status, else 429 if a
// counting rule refused and 403 otherwise.
func (a *Answer) status() int {
	switch {
	case a.Result.HTTPStatus != 0:
		return a.Result.HTTPStatus
	case a.Verdict == rules.Deny && a.overLimit():
		return http.StatusTooManyRequests
	}
	return http.StatusForbidden
}

// overLimit reports whether a counter refused, rather than a direct rule or an entry
// that always denies.
func (a *Answer) overLimit() bool {
	return a.Limited && (a.Decider != nil || a.Result == adHocResult)
}

func (p *problem) refusal(b []byte) Refusal {
	if cap(b) == 0 {
		b = make([]byte, 0, 256)
	}
	return Refusal{Status: p.status, ContentType: "application/problem+json", Body: p.appendTo(b)}
}

// appendTo appends the document. encoding/json would need four more allocations per
// refusal, and refusals arrive in floods.
func (p *problem) appendTo(b []byte) []byte {
	b = jsontext.AppendString(append(b, `{"type":`...), p.kind)
	b = jsontext.AppendString(append(b, `,"title":`...), p.title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.status), 10)
	if p.detail != "" {
		b = jsontext.AppendString(append(b, `,"detail":`...), p.detail)
	}
	if p.violated != nil {
		b = p.violated.appendPolicyName(append(b, `,"violated-policies":["`...))
		b = append(b, `"]`...)
	}
	if p.challenge != nil {
		b = strconv.AppendInt(append(b, `,"challenge":{"vcode_len":`...), p.challenge.VcodeLen, 10)
		b = strconv.AppendInt(append(b, `,"vcode_type":`...), p.challenge.VcodeType, 10)
		b = append(b, '}')
	}
	if p.requestID != "" {
		b = jsontext.AppendString(append(b, `,"request_id":`...), p.requestID)
	}
	return append(b, '}')
}

func title(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "Refused"
}

// contentType returns the type of the body of an entry: the Content-Type of its
// headers, or plain text.
func contentType(r *rules.Result) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, "Content-Type") {
			return h.Value
		}
	}
	return "text/plain; charset=utf-8"
}
