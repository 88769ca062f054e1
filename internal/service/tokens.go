package service

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/rules"
)

// openTokens opens what verifies tokens.
func (s *Service) openTokens() {
	s.keys = keyset.New(keyset.Options{StateDir: s.config.StateDir, Logger: s.logger})
	s.onClose(s.keys.Close)
	s.tokens = tokens.NewRing(tokens.Options{
		Remembered: s.config.MaxTokens, Address: s.keys.Source,
		Verified: func(name string, outcome rules.JWTOutcome) { s.metrics.Verified(name, outcome.String()) },
	})
	s.metrics.WatchTokens(s.tokens.Remembered, s.keySets)
}

// draftToken is a function for rules.Options.OpenToken of drafts: whoever may read the rules does
// not make the service fetch anything.
func (s *Service) draftToken() func(*rules.JWT, []byte) (rules.JWTVerifier, []error, error) {
	return tokens.NewRing(tokens.Options{Address: s.keys.Known}).Open
}

// publishedToken is a function for rules.Options.OpenToken of published rules: whoever publishes
// them reaches the hosts that rules_may_use lists, and no others.
func (s *Service) publishedToken(t *rules.JWT, text []byte) (rules.JWTVerifier, []error, error) {
	if t.From != rules.FromFile {
		address, err := url.Parse(t.Keys)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(s.config.RulesMayUse, address.Host) {
			return nil, nil, fmt.Errorf("the host %s is not in rules_may_use, the setting of this instance", address.Host)
		}
	}
	return s.tokens.Open(t, text)
}

// keySets returns the states of the keys by address, for metrics.
func (s *Service) keySets() []metrics.KeySet {
	var list []metrics.KeySet
	for _, state := range s.keys.States() {
		for _, name := range state.Tokens {
			list = append(list, metrics.KeySet{Token: name, Age: time.Since(state.At), Fetches: state.Fetches, Failures: state.Failures})
		}
	}
	return list
}
