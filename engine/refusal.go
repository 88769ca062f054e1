package engine

import (
	"encoding/json"
	"net/http"
	"strings"

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
	Type      string     `json:"type"`
	Title     string     `json:"title"`
	Status    int        `json:"status"`
	Detail    string     `json:"detail,omitempty"`
	Violated  []string   `json:"violated-policies,omitempty"`
	Challenge *challenge `json:"challenge,omitempty"`
}

// challenge is what Koala's result entry says of the captcha to show.
type challenge struct {
	Length int64 `json:"vcode_len"`
	Type   int64 `json:"vcode_type"`
}

// Refusal is the answer to the client of a decision that does not allow.
func (d *Decision) Refusal() Refusal {
	if d.Unavailable {
		return Problem(http.StatusServiceUnavailable, "")
	}
	return d.Sets[d.Refuser].refusal()
}

// Problem is a refusal without a rule behind it: a request that cannot be
// decided.
func Problem(status int, detail string) Refusal {
	return problem{Type: "about:blank", Title: title(status), Status: status, Detail: detail}.refusal()
}

func (a *Answer) refusal() Refusal {
	status := a.status()
	if a.Result.Body != "" {
		return Refusal{Status: status, ContentType: contentType(a.Result), Body: []byte(a.Result.Body)}
	}
	doc := problem{Type: "about:blank", Title: title(status), Status: status, Detail: a.Result.ErrMsg}
	switch {
	case a.Verdict == rules.Challenge:
		doc.Challenge = &challenge{a.Result.VcodeLen, a.Result.VcodeType}
	case a.overLimit():
		doc.Type, doc.Title = quotaExceeded, "Quota exceeded"
		doc.Violated = []string{a.Quota.PolicyName()}
	}
	return doc.refusal()
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

func (p problem) refusal() Refusal {
	// Marshal cannot fail: the document is strings and numbers.
	body, _ := json.Marshal(p)
	return Refusal{Status: p.Status, ContentType: "application/problem+json", Body: body}
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
