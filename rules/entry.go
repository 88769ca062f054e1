package rules

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Entry is the result as Koala's clients read it, with retCode in place of
// the entry's own Ret_code.
func (r *Result) Entry(retCode int64) []byte { return r.AppendEntry(nil, retCode) }

// AppendEntry appends Entry to b. Koala's API answers thousands of calls a
// second, and encoding/json would take four allocations for each.
func (r *Result) AppendEntry(b []byte, retCode int64) []byte {
	number := func(name string, n int64) { b = strconv.AppendInt(append(b, name...), n, 10) }
	text := func(name, s string) { b = appendJSONText(append(b, name...), s) }
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

// appendJSONText appends s as a text of JSON: as it stands where it needs no
// escape, which is nearly always.
func appendJSONText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			var quoted bytes.Buffer
			e := json.NewEncoder(&quoted)
			e.SetEscapeHTML(false) // Koala does not
			_ = e.Encode(s)        // a text is always encoded
			return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
