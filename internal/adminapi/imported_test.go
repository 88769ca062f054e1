package adminapi

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/operations"
)

// importedLimits has one limit, which is exceeded.
func importedLimits(t *testing.T) *operations.Imported {
	t.Helper()
	config, err := envoylimits.Read("f", []byte("domain: d\ndescriptors: [{key: k, descriptors: [{key: k, value: v, rate_limit: {unit: minute, requests_per_unit: 3}}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
	if err != nil {
		t.Fatal(err)
	}
	return &operations.Imported{
		Current: func() *envoylimits.Set { return set },
		Look: func(_ context.Context, domain string, entries []mapping.Entry) (*imported.Look, error) {
			var m envoylimits.Match
			set.Match(domain, entries, &m)
			if m.Limit == nil {
				return &imported.Look{Reason: set.Reason(domain, entries, &m)}, nil
			}
			return &imported.Look{Path: m.Path, Limit: m.Limit, Max: 4, Used: 4, Reset: time.Minute, Exceeded: true, Refused: true}, nil
		},
	}
}
