package main

import (
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/rules"
)

// failPolicies are what holds at the doors while Redis is away, as configured.
func failPolicies(c *config.Config) engine.Policies {
	named := map[string]rules.FailPolicy{
		"rescue": rules.FailRescue, "allow": rules.FailAllow, "deny": rules.FailDeny, "gateway": rules.FailGateway,
	}
	policies := make(engine.Policies, len(c.FailPolicies))
	for _, text := range c.FailPolicies {
		door, policy, _ := strings.Cut(text, "=") // the configuration has checked both
		policies[door] = named[policy]
	}
	return policies
}
