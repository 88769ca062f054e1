package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/metrics"
)

// TestUnknownReceiptsAreLoggedNowAndThen settles and renews unknown receipts at two doors:
// each door logs one line, without the receipt.
func TestUnknownReceiptsAreLoggedNowAndThen(t *testing.T) {
	var text bytes.Buffer
	settled, renewed := observeSettlements(metrics.New(metrics.Build{}), new(decisionLog), slog.New(slog.NewTextHandler(&text, nil)))
	const receipt = "rABCDEFGHIJKLMNOPQRSTUV"
	for range 3 {
		for _, door := range []string{"settle", "ratelimit"} {
			s := &engine.Settlement{Receipt: receipt, Door: door}
			settled(s, engine.Settled{}, nil)
			renewed(s, engine.Settled{}, nil)
		}
	}
	for _, got := range []engine.Settled{{Known: true}, {Known: true, Deferred: true}} {
		settled(&engine.Settlement{Receipt: receipt, Door: "koala"}, got, nil)
	}
	settled(&engine.Settlement{Receipt: receipt, Door: "koala"}, engine.Settled{}, errors.New("gone"))
	lines := text.String()
	if n := strings.Count(lines, "an unknown receipt"); n != 2 || strings.Contains(lines, "door=koala") || strings.Contains(lines, receipt) {
		t.Errorf("%d lines; want one for each of two doors, without the receipt:\n%s", n, lines)
	}
}
