package service

import (
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/rules"
)

// newLogger returns a logger with the configured format, level and number of lines. With
// imported limits, the JSON has the keys of envoyproxy/ratelimit.
func newLogger(w io.Writer, c *config.Config, m *metrics.Metrics, isImported bool) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // package config has checked it
	o := &slog.HandlerOptions{Level: level}
	if isImported && c.LogFormat == "json" {
		o.ReplaceAttr = renameKeys
	}
	var h slog.Handler = slog.NewJSONHandler(w, o)
	if c.LogFormat == "text" {
		h = slog.NewTextHandler(w, o)
	}
	if c.LogMaxLines > 0 {
		m.WatchBound(boundLogLines)
		h = loglimit.NewHandler(h, c.LogMaxLines, func() { m.Bounded(boundLogLines) })
	}
	return slog.New(h)
}

// NewLogger returns the logger of a service with imported limits, for what precedes Open.
func NewLogger(w io.Writer, c *config.Config) *slog.Logger {
	return newLogger(w, c, metrics.New(metrics.Build{}), true)
}

// renameKeys gives the time and the message the keys of envoyproxy/ratelimit.
func renameKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch a.Key {
		case slog.TimeKey:
			a.Key = "@timestamp"
		case slog.MessageKey:
			a.Key = "@message"
		}
	}
	return a
}

// storeOf returns the word for the configured store: redis or memory.
func storeOf(c *config.Config) string {
	if c.Redis != "" {
		return "redis"
	}
	return "memory"
}

// ruleFiles returns the configured rule files, with the time zone that the settings state.
func (s *Service) ruleFiles() reload.Files {
	c := s.config
	return reload.Files{
		Paths: c.Rules, DictRoot: c.DictRoot,
		Rules: rules.Options{
			Timezone: s.zone, Now: time.Now, RequireEnd: c.RequireEnd, AllowEmpty: c.AllowEmptyRules, OpenToken: s.tokens.Open,
		},
	}
}

// statedZone returns the configured time zone, "" if nobody configured one, so that rules
// that depend on the zone and do not state it get a warning.
func statedZone(l *config.Loaded) string {
	if l.Sources["timezone"] == config.SourceDefault {
		return ""
	}
	return l.Timezone
}

// failPolicies returns the configured policies of doors while Redis is unavailable.
func failPolicies(c *config.Config) engine.Policies {
	named := map[string]rules.FailPolicy{
		"rescue": rules.FailRescue, "allow": rules.FailAllow, "deny": rules.FailDeny, "gateway": rules.FailGateway,
	}
	policies := make(engine.Policies, len(c.FailPolicies))
	for _, text := range c.FailPolicies {
		door, policy, _ := strings.Cut(text, "=") // package config has checked both
		policies[door] = named[policy]
	}
	return policies
}

func (s *Service) mappingOptions() mapping.Options {
	c := s.config
	return mapping.Options{
		MaxParams: c.MaxParams, MaxValue: c.MaxValue,
		Exceeded:    func(b mapping.Bound) { s.bounds.exceeded(string(b), nil) },
		TrustedHops: c.TrustedHops, KeepMalformed: c.MalformedPaths == "keep",
		KeepMissingAddress: c.MissingAddress == "keep",
	}
}

func presentation(c *config.Config) engine.Presentation {
	return engine.Presentation{Quota: engine.QuotaHeaders(c.Headers), HideDecision: c.HideDecisionHeaders}
}

// koalaAccess returns how much of Koala's API a listener serves. A client that can
// write to it can block every user, so by default it is complete only where clients
// are on this machine.
func koalaAccess(setting string, isLocal bool) koala.Access {
	switch {
	case setting != "auto":
		return koala.Access(setting)
	case isLocal:
		return koala.Full
	}
	return koala.Read
}

// prefixes parses addresses and blocks, which package config has checked. The list
// is never nil: an empty one trusts no proxy, nil would be the default of the door.
func prefixes(list []string) []netip.Prefix {
	parsed := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			parsed = append(parsed, unmapped(p.Masked()))
		} else if a, err := netip.ParseAddr(text); err == nil {
			parsed = append(parsed, unmapped(netip.PrefixFrom(a, a.BitLen())))
		}
	}
	return parsed
}

// unmapped returns the network of IPv4 for one of addresses that IPv6 has mapped, as in RFC 4291:
// peers are compared without that.
func unmapped(p netip.Prefix) netip.Prefix {
	const mapped = 128 - 32 // bits before the address of IPv4
	if a := p.Addr(); a.Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-mapped)
	}
	return p
}
