package service

import (
	"log/slog"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/metrics"
)

// observeSettlements returns the hooks that count settlements and renewals, write them
// to the decision log, and log now and then that receipts are unknown. Receipts are secrets,
// and are not logged.
func observeSettlements(m *metrics.Metrics, decisions *decisionLog, logger *slog.Logger) (settled, renewed func(*engine.Settlement, engine.Settled, error)) {
	var unknown loglimit.Lines[string] // by door
	complain := func(s *engine.Settlement, got engine.Settled, err error) {
		if err != nil || got.Known {
			return
		}
		if skipped, due := unknown.Due(s.Door); due {
			logger.Info("an unknown receipt: it was settled before, has expired or was never issued", "door", s.Door, "suppressed", skipped)
		}
	}
	settled = func(s *engine.Settlement, got engine.Settled, err error) {
		complain(s, got, err)
		m.Settled(settledAs(got, err), got.Age)
		if decisions.log != nil {
			decisions.log.Settled(s, got, err)
		}
	}
	renewed = func(s *engine.Settlement, got engine.Settled, err error) {
		complain(s, got, err)
		m.Renewed(settledAs(got, err))
		if decisions.log != nil {
			decisions.log.Renewed(s, got, err)
		}
	}
	return settled, renewed
}

// settledAs returns the result of a settlement or renewal in metrics.
func settledAs(got engine.Settled, err error) string {
	switch {
	case err != nil:
		return metrics.SettledError
	case got.Deferred:
		return metrics.SettledDeferred
	case got.Known:
		return metrics.SettledOK
	}
	return metrics.SettledUnknown
}
