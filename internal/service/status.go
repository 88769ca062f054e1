package service

import (
	"net/http"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/admin"
	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/page"
	"github.com/koalagate/koalagate/internal/reload"
)

// adminPages returns the handler of the admin address.
func (s *Service) adminPages() http.Handler {
	tokens := s.adminTokens()
	refused := refusedPeers(s.metrics, metrics.Admin, "host", "token", "web_page")
	var fleetModes adminapi.FleetModes
	if s.fleetModes != nil {
		fleetModes = s.fleetModes
	}
	pages := admin.New(admin.Options{
		Status:  func() admin.Status { return s.status(s.app.Rules()) },
		Metrics: s.metrics.Handler(), Modes: s.modes, Version: s.version,
		ModesChanged: func(r *http.Request, changes map[string]engine.Mode) {
			adminapi.RecordModes(s.trail, s.traffic, r, changes, "")
		},
		Hosts: s.config.AdminHosts, Tokens: tokens, Refused: refused, Page: page.New(),
		API: adminapi.New(adminapi.Options{
			Desk: s.desk, Exceptions: s.exceptions, Trail: s.trail, Traffic: s.traffic, Heavy: s.heavy, Trials: s.trials, Member: s.app.Member(), Tokens: tokens, Refused: refused, Logger: s.logger,
			State: s.operatorState, Modes: s.modes, FleetModes: fleetModes,
		}),
	})
	if s.imported != nil {
		s.imported.Pages.Operators = dropin.Guard{Hosts: s.config.AdminHosts, Setting: "KOALAGATE_ADMIN_HOSTS", Refused: refused, Logger: s.logger}
		return s.imported.Pages.Debug(pages)
	}
	return pages
}

// status returns the contents of /readyz.
func (s *Service) status(r reload.State) admin.Status {
	now := status(r, s.app.StoreKind(), s.app.StoreFault(), s.draining.Load())
	if now.Ready && s.imported != nil && s.imported.Pages.LacksLimits() {
		now.Ready, now.Reason = false, "no limits are loaded, and HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED requires some"
	}
	return now
}

// status describes the rules, the store and the drain.
func status(r reload.State, store, storeFault string, isDraining bool) admin.Status {
	now := admin.Status{
		Ready: r.IsReady() && !isDraining, Release: r.Release, Generation: r.Generation, Hash: r.Hash, Rules: r.Rules,
		LoadedAt: r.LoadedAt, Changes: r.Changes, LastError: r.LastError, Store: store, StoreError: storeFault,
	}
	if r.Restored {
		now.RestoredFrom = &r.SavedAt
	}
	switch {
	case isDraining:
		now.Reason = "draining"
	case r.Unready != "":
		now.Reason = r.Unready
	case r.Generation == 0:
		now.Reason = "the rules are not loaded"
	}
	return now
}
