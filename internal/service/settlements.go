package service

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/metrics"
)

// observeSettlements returns the hooks that count settlements and renewals, and write them
// to the decision log.
func observeSettlements(m *metrics.Metrics, decisions *decisionLog) (settled, renewed func(*engine.Settlement, engine.Settled, error)) {
	settled = func(s *engine.Settlement, got engine.Settled, err error) {
		m.Settled(settledAs(got, err), got.Age)
		if decisions.log != nil {
			decisions.log.Settled(s, got, err)
		}
	}
	renewed = func(s *engine.Settlement, got engine.Settled, err error) {
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
