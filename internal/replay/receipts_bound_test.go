package replay

import (
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
)

// A trace may name a million valid receipts; one more is an error, and when they have expired
// they are forgotten.
func TestValidReceiptsOfATraceAreBounded(t *testing.T) {
	const span = 1000
	r := &receipts{span: span, open: make(map[string]openReceipt), many: someReceipts}
	taken := &engine.Decision{Receipt: "r"}
	note := func(name string, at int64) error {
		var line trace.Line
		line.T, line.Receipt = at, name
		return r.note(&line, taken)
	}
	for i := range maxReceipts {
		if err := note(strconv.Itoa(i), 0); err != nil {
			t.Fatalf("receipt %d: %v", i, err)
		}
	}
	if err := note("one more", span); err == nil || !strings.Contains(err.Error(), "more than 1000000 receipts are valid") {
		t.Errorf("%v", err)
	}
	if err := note("later", span+1); err != nil || len(r.open) != 1 {
		t.Errorf("%d receipts, %v; want the last one alone", len(r.open), err)
	}
}
