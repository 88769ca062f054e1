package replay_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/trace"
)

const holdRule = "[rules]\nrule : [hold] [uid=+] [time=60; count=%d] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"

// A take, its settlement, two takes of another user, and an unknown receipt.
const receiptTrace = `{"t":1770000000000,"receipt":"a","params":{"uid":"7"},"answer":{"verdict":"allow","result":1,"return":0,"receipt":true}}
{"t":1770000001000,"op":"settle","receipt":"a","response":{"status":"200"},"answer":{"verdict":"ok"}}
{"t":1770000002000,"params":{"uid":"7"}}
{"t":1770000003000,"op":"settle","receipt":"a"}
{"t":1770000004000,"receipt":"b","params":{"uid":"7"}}
{"t":1770000005000,"op":"renew","receipt":"never"}
`

func TestReplayCarriesSettlementsOut(t *testing.T) {
	set := parse(t, strings.Replace(holdRule, "%d", "1", 1), "", nil, nil)
	var out strings.Builder
	report, err := replay.Run(t.Context(), replay.Options{Rules: set, Trace: strings.NewReader(receiptTrace), Answers: &out, Summarize: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"verdict":"allow","result":1,"return":0,"limit":1,"remaining":0,"reset_ms":60000,"receipt":true}`,
		`{"verdict":"ok"}`,
		`{"verdict":"allow","result":1,"return":0,"limit":1,"remaining":0,"reset_ms":60000}`, // its line names no receipt
		`{"verdict":"unknown"}`,
		`{"verdict":"deny","result":2,"return":201,"limit":1,"remaining":0,"reset_ms":58000,"retry_ms":58000}`,
		`{"verdict":"unknown"}`,
	}
	if got := strings.TrimSpace(out.String()); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if report.Calls != 6 || report.Allowed != 2 || report.Denied != 1 || report.Undecided != 3 || report.Comparison.Different != 0 {
		t.Errorf("%+v; want 2 allowed, 1 denied, 3 without a verdict", report)
	}
}

func TestDiffCarriesSettlementsOut(t *testing.T) {
	old, fresh := parse(t, strings.Replace(holdRule, "%d", "1", 1), "", nil, nil), parse(t, strings.Replace(holdRule, "%d", "2", 1), "", nil, nil)
	got, err := replay.Diff(t.Context(), replay.DiffOptions{Old: old, New: fresh, Traces: trace.NewFiles(strings.NewReader(receiptTrace))})
	if err != nil {
		t.Fatal(err)
	}
	if got.Calls != 6 || got.NewlyAllowed != 1 || got.NewlyRefused != 0 {
		t.Errorf("%+v; want one call more allowed of 6", got)
	}
}
