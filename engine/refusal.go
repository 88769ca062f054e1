package engine

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/rules"
)

// Refusal is what the client of a gateway gets in place of what it asked for.
type Refusal struct {
	Status      int
	ContentType string
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
	challenge *rules.Result // whose captcha is to be shown; nil for none
}

// Refusal is the answer to the client of a decision that does not allow. Its
// body holds as long as the decision, and until the next call of Refusal.
func (d *Decision) Refusal() Refusal {
	if d.Unavailable {
		return Problem(http.StatusServiceUnavailable, "")
	}
	r := d.Sets[d.Refuser].refusal(d.document[:0])
	d.document = r.Body
	return r
}

// Problem is a refusal without a rule behind it: a request that cannot be
// decided.
func Problem(status int, detail string) Refusal {
	p := problem{kind: "about:blank", title: title(status), status: status, detail: detail}
	return p.refusal(nil)
}

func (a *Answer) refusal(b []byte) Refusal {
	status := a.status()
	if a.Result.Body != "" {
		return Refusal{Status: status, ContentType: contentType(a.Result), Body: append(b, a.Result.Body...)}
	}
	doc := problem{kind: "about:blank", title: title(status), status: status, detail: a.Result.ErrMsg}
	switch {
	case a.Verdict == rules.Challenge:
		doc.challenge = a.Result
	case a.overLimit():
		doc.kind, doc.title, doc.violated = quotaExceeded, "Quota exceeded", &a.Quota
	}
	return doc.refusal(b)
}

// status is the HTTP status for the client: what the entry says, else 429 for
// a counting rule's refusal and 403 for any other.
func (a *Answer) status() int {
	switch {
	case a.Result.HTTPStatus != 0:
		return a.Result.HTTPStatus
	case a.Verdict == rules.Deny && a.overLimit():
		return http.StatusTooManyRequests
	}
	return http.StatusForbidden
}

// overLimit tells whether a counter refused, and not a direct rule or an entry
// that denies by itself.
func (a *Answer) overLimit() bool {
	return a.Limited && (a.Decider != nil || a.Result == adHocResult)
}

func (p *problem) refusal(b []byte) Refusal {
	if cap(b) == 0 {
		b = make([]byte, 0, 256)
	}
	return Refusal{Status: p.status, ContentType: "application/problem+json", Body: p.appendTo(b)}
}

// appendTo appends the document. encoding/json would take four allocations more
// for each refusal, and refusals come in floods.
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
	return append(b, '}')
}

func title(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "Refused"
}

// contentType is the type of an entry's own body: as its headers say, else
// plain text.
func contentType(r *rules.Result) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, "Content-Type") {
			return h.Value
		}
	}
	return "text/plain; charset=utf-8"
}
