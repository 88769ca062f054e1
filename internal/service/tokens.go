package service

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/rules"
)

// openTokens opens what verifies tokens.
func (s *Service) openTokens() {
	o := keyset.Options{StateDir: s.config.StateDir, Logger: s.logger}
	if s.config.IsPublished() {
		o.MayAsk = s.mayAsk
	}
	s.keys = keyset.New(o)
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
		if err := s.mayAsk(address); err != nil {
			return nil, nil, err
		}
	}
	return s.tokens.Open(t, text)
}

// mayAsk returns an error unless rules_may_use lists the host of an address. An issuer chooses
// the hosts of its keys and of redirects, so that each is checked when it is asked.
func (s *Service) mayAsk(address *url.URL) error {
	host := address.Host
	if address.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	}
	if slices.ContainsFunc(s.config.RulesMayUse, func(known string) bool { return strings.EqualFold(known, host) }) {
		return nil
	}
	return fmt.Errorf("the host %.100q is not in rules_may_use, the setting of this instance", host)
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
