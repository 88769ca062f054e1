package rules

import (
	"strconv"

	"github.com/koalagate/koalagate/internal/jsontext"
)

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
