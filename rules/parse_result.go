package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/httptext"
)

// resultDecl is a line of [result].
type resultDecl struct {
	*Result
	number   span
	status   span // of Http_status
	gateways span // the first field for the clients of gateways
}

// resultField is a field of an entry: an integer field if integer is set, a text
// field if text is set, and Headers if neither is.
type resultField struct {
	name        string
	integer     func(r *Result, n int64)
	text        func(r *Result, s string)
	least, most int64
}

const (
	leastInt64 = -1 << 63
	mostInt64  = 1<<63 - 1
)

// resultFields are Koala's fields and, from index ownFields, those for the clients of
// gateways.
var resultFields = []resultField{
	{"Ret_type", func(r *Result, n int64) { r.RetType = n }, nil, leastInt64, mostInt64},
	{"Ret_code", func(r *Result, n int64) { r.RetCode = n }, nil, leastInt64, mostInt64},
	{"Err_no", func(r *Result, n int64) { r.ErrNo = n }, nil, leastInt64, mostInt64},
	{"Err_msg", nil, func(r *Result, s string) { r.ErrMsg = s }, 0, 0},
	{"Str_reason", nil, func(r *Result, s string) { r.StrReason = s }, 0, 0},
	{"Need_vcode", func(r *Result, n int64) { r.NeedVcode = n }, nil, leastInt64, mostInt64},
	{"Vcode_len", func(r *Result, n int64) { r.VcodeLen = n }, nil, leastInt64, mostInt64},
	{"Vcode_type", func(r *Result, n int64) { r.VcodeType = n }, nil, leastInt64, mostInt64},
	{"Other", nil, func(r *Result, s string) { r.Other = s }, 0, 0},
	{"Version", func(r *Result, n int64) { r.Version = n }, nil, leastInt64, mostInt64},
	{statusField, func(r *Result, n int64) { r.HTTPStatus = int(n) }, nil, 200, 599},
	{"Grpc_status", func(r *Result, n int64) { r.GRPCStatus = int(n) }, nil, 1, 16},
	{"Body", nil, func(r *Result, s string) { r.Body = s }, 0, 0},
	{headersField, nil, nil, 0, 0},
}

const (
	ownFields    = 10
	statusField  = "Http_status"
	headersField = "Headers"
)

func resultFieldNames() []string {
	names := make([]string, len(resultFields))
	for i := range resultFields {
		names[i] = resultFields[i].name
	}
	return names
}

// parseResult reads `N : {json}`.
func (p *parser) parseResult(s span) {
	number, object, found := s.cut(':')
	n, ok := parseInteger(number.text())
	if brace := strings.IndexByte(number.text(), '{'); brace > 0 {
		p.reportf(number.slice(brace, brace), errStatement, cmp.Or(halfWidthHint(number.slice(0, brace).text(), ":"), "want N : {json}"), "missing colon after the entry number")
		number, object, found = s.slice(0, brace).trim(), s.tail(brace), true
		if digits := strings.TrimSpace(strings.TrimSuffix(number.text(), "：")); len(digits) < len(number.text()) {
			number = number.slice(0, len(digits))
		}
		n, ok = parseInteger(number.text())
	}
	switch {
	case !found || object.empty():
		p.reportf(s, errStatement, "want N : {json}", "%q is not an entry", s.mention())
		return
	case !ok || n < 0 || n > maxReturn:
		p.reportf(number, errEntryNumber, fmt.Sprintf("want a number, 0 … %d", maxReturn), "invalid entry number %q", number.mention())
		return
	}
	if first, repeated := p.declare("entry", strconv.FormatInt(n, 10), number); repeated {
		p.reportf(number, errEntryTwice, "remove one of them, or give it another number", "entry %d is already at %s", n, first)
		return
	}
	d := &resultDecl{Result: &Result{Number: int(n), Pos: number.position()}, number: number}
	p.results = append(p.results, d)
	members, ok := p.object(object)
	if !ok {
		return
	}
	seen := make(map[string]bool)
	for _, m := range members {
		p.parseField(d, m, seen)
	}
	d.addChallenge()
}

// addChallenge adds the header that a 401 must have (RFC 9110, section 15.5.2), unless the entry
// has it.
func (r *Result) addChallenge() {
	const name = "WWW-Authenticate"
	if r.HTTPStatus == http.StatusUnauthorized && !slices.ContainsFunc(r.Headers, func(h Header) bool { return strings.EqualFold(h.Name, name) }) {
		r.Headers = append(r.Headers, Header{Name: name, Value: "Bearer"})
	}
}

// parseField reads one field of an entry.
func (p *parser) parseField(d *resultDecl, m member, seen map[string]bool) {
	i := slices.IndexFunc(resultFields, func(f resultField) bool { return strings.EqualFold(f.name, m.name) })
	if i < 0 {
		if !json.Valid([]byte(m.value.text())) {
			p.reportf(m.value, errJSON, "want a number, or text in quotes", "invalid JSON value")
		}
		p.found.add(warnField, m.at, Finding{
			Message: fmt.Sprintf("unknown field %q", m.name), Hint: "remove it",
			Suggestion: suggest(m.name, resultFieldNames()),
		})
		return
	}
	f := &resultFields[i]
	if seen[f.name] {
		p.reportf(m.at, errFieldTwice, "remove one of them", "the field %s occurs twice in this entry", f.name)
		return
	}
	seen[f.name] = true
	if i >= ownFields && d.gateways.line == nil {
		d.gateways = m.at
	}
	switch {
	case f.integer != nil:
		p.parseIntegerField(d, f, m)
	case f.text != nil && m.kind == jsonString:
		f.text(d.Result, m.text)
	case f.text != nil:
		p.wrongType(f, m, "text in quotes")
	case m.kind == jsonObject:
		p.parseHeaders(d, m)
	default:
		p.wrongType(f, m, `an object with text values, such as {"X-Reason": "too fast"}`)
	}
}

func (p *parser) wrongType(f *resultField, m member, want string) {
	p.reportf(m.value, errFieldType, "want "+want, "%s has the value %s", f.name, m.value.mention())
}

func (p *parser) parseIntegerField(d *resultDecl, f *resultField, m member) {
	n, err := strconv.ParseInt(m.value.text(), 10, 64)
	switch {
	case m.kind != jsonNumber:
		p.wrongType(f, m, "a whole number without quotes")
	case !hasIntegerForm(m.value.text()):
		p.wrongType(f, m, "a whole number")
	case err != nil || n < f.least || n > f.most:
		p.reportf(m.value, errFieldRange, fmt.Sprintf("want %d … %d", f.least, f.most), "%s=%s is out of range", f.name, m.value.mention())
	default:
		f.integer(d.Result, n)
		if f.name == statusField {
			d.status = m.value
		}
	}
}

// maxQuietHeaders is the size of an entry's headers above which W018 warns, in bytes:
// nginx fails on responses whose headers exceed its buffer of 2 kB, and the gateway's
// own headers take up to 600 bytes.
const maxQuietHeaders = 1400

// parseHeaders reads the object of Headers.
func (p *parser) parseHeaders(d *resultDecl, m member) {
	members, ok := p.object(m.value)
	if !ok {
		return
	}
	size := 0
	seen := make(map[string]bool)
	for _, h := range members {
		lower := strings.ToLower(h.name)
		switch {
		case !isToken(h.name):
			p.reportf(h.at, errHeader, "want letters, digits and - only", "invalid header name %q", h.name)
		case httptext.IsReservedHeader(h.name):
			p.reportf(h.at, errHeader, "remove it: it belongs to the transport", "the header %s cannot be set", h.name)
		case seen[lower]:
			p.reportf(h.at, errFieldTwice, "join the values", "the header %s occurs twice", h.name)
		case h.kind != jsonString:
			p.reportf(h.value, errFieldType, "want text in quotes", "the header %s has the value %s", h.name, h.value.mention())
		case strings.ContainsFunc(h.text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			p.reportf(h.value, errHeader, "remove line ends and control characters", "the value of %s contains a control character", h.name)
		default:
			d.Headers = append(d.Headers, Header{h.name, h.text})
		}
		seen[lower] = true
		size += len(h.name) + len(h.text) + len(": \r\n")
	}
	if size > maxQuietHeaders {
		p.reportf(m.at, warnHeaderSize, "shorten them: nginx fails on responses with more than 2 kB of headers, including the headers that koalagate adds", "the headers of entry %d have %d bytes", d.Number, size)
	}
}
