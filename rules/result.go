package rules

import (
	"fmt"
	"strconv"

	"github.com/koalagate/koalagate/internal/jsontext"
)

// Verdict is the meaning of a decision for its caller. Only Allow lets a request
// through.
type Verdict uint8

// The verdicts. The zero value belongs to a decision that was not made, and
// refuses.
const (
	VerdictUnset Verdict = iota
	Allow
	Deny      // refuse
	Challenge // ask for a captcha
)

var verdictNames = [...]string{"unset", "allow", "deny", "challenge"}

// String returns the word for the verdict in logs, metrics and headers.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Result is an entry of [result]: Koala's fields, and the response for the clients of
// gateways.
type Result struct {
	Number    int // the entry's number
	RetType   int64
	RetCode   int64 // the answer has this if no rule decided, and the rule's Return otherwise
	ErrNo     int64
	ErrMsg    string
	StrReason string
	NeedVcode int64
	VcodeLen  int64
	VcodeType int64
	Other     string
	Version   int64

	HTTPStatus int      // 0: the default of the refusal (429, 403)
	GRPCStatus int      // 0: the gateway's own mapping
	Headers    []Header // sent to the client on a refusal
	Body       string   // replaces the problem document; "" for none
	Pos        Position
}

// Header is one header line of a result entry.
type Header struct {
	Name  string
	Value string
}

// Verdict returns the meaning of the entry: Challenge if Need_vcode is not 0, else
// Deny if Err_no is not 0, else Allow, so that the zero entry allows, as {} does in
// Koala. It returns VerdictUnset for a nil entry.
func (r *Result) Verdict() Verdict {
	switch {
	case r == nil:
		return VerdictUnset
	case r.NeedVcode != 0:
		return Challenge
	case r.ErrNo != 0:
		return Deny
	}
	return Allow
}

// Entry returns the result as JSON in the form of Koala's API, with retCode instead
// of the entry's own Ret_code.
func (r *Result) Entry(retCode int64) []byte { return r.AppendEntry(nil, retCode) }

// AppendEntry appends Entry to b. It avoids encoding/json, which needs four
// allocations per answer. Like Koala, it does not escape HTML characters.
func (r *Result) AppendEntry(b []byte, retCode int64) []byte {
	number := func(name string, n int64) { b = strconv.AppendInt(append(b, name...), n, 10) }
	text := func(name, s string) { b = jsontext.AppendStringRawHTML(append(b, name...), s) }
	number(`{"Ret_type":`, r.RetType)
	number(`,"Ret_code":`, retCode)
	number(`,"Err_no":`, r.ErrNo)
	text(`,"Err_msg":`, r.ErrMsg)
	text(`,"Str_reason":`, r.StrReason)
	number(`,"Need_vcode":`, r.NeedVcode)
	number(`,"Vcode_len":`, r.VcodeLen)
	number(`,"Vcode_type":`, r.VcodeType)
	text(`,"Other":`, r.Other)
	number(`,"Version":`, r.Version)
	return append(b, '}')
}
