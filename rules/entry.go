package rules

import (
	"bytes"
	"encoding/json"
)

// Entry is the result as Koala's clients read it, with retCode in place of
// the entry's own Ret_code.
func (r *Result) Entry(retCode int64) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // Koala does not
	// A struct of numbers and texts is always encoded.
	_ = e.Encode(struct {
		RetType   int64  `json:"Ret_type"`
		RetCode   int64  `json:"Ret_code"`
		ErrNo     int64  `json:"Err_no"`
		ErrMsg    string `json:"Err_msg"`
		StrReason string `json:"Str_reason"`
		NeedVcode int64  `json:"Need_vcode"`
		VcodeLen  int64  `json:"Vcode_len"`
		VcodeType int64  `json:"Vcode_type"`
		Other     string
		Version   int64
	}{r.RetType, retCode, r.ErrNo, r.ErrMsg, r.StrReason, r.NeedVcode, r.VcodeLen, r.VcodeType, r.Other, r.Version})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
