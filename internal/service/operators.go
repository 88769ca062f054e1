package service

import (
	"context"
	"maps"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/fleet/modes"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/identities"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/rules"
)

// adminTokens returns the tokens of the admin address. Without a configured token for
// changes it makes one, whose file ends with the service.
func (s *Service) adminTokens() *access.Tokens {
	c := s.config
	tokens := &access.Tokens{Change: c.AdminToken.Reveal(), Read: c.AdminReadToken.Reveal(), Exposed: !isLocal(s.listeners.admin)}
	if tokens.Change != "" {
		return tokens
	}
	dir, err := c.StateDir, error(nil)
	if dir == "" {
		dir, err = access.RuntimeDir(s.environ)
	}
	var made *access.File
	if err == nil {
		made, err = access.MakeFile(dir, s.Addresses().Admin)
	}
	if err != nil {
		s.logger.Warn("no token for changes at the admin address; operators can only read there", "error", err,
			"remedy", "set admin_token_file, or a state_dir that the service can write to")
		return tokens
	}
	s.logger.Info("made a token for changes at the admin address", "path", made.Path)
	s.onClose(func() {
		if err := made.Remove(); err != nil {
			s.logger.Debug("removing the token", "error", err)
		}
	})
	tokens.Change, tokens.Made, tokens.File = made.Token, true, made.Path
	return tokens
}

// openExceptions opens the exceptions and the audit trail: in Redis for all instances, or in
// this process.
func (s *Service) openExceptions() error {
	c := s.config
	key, err := publicKey(c)
	if err != nil {
		return err
	}
	o := exceptions.Options{Max: c.MaxExceptions, Prefix: c.RedisPrefix, PublicKey: key, Limits: s.limitsOf(), Logger: s.logger}
	s.identities = identities.New(identities.Options{Mask: s.decisions.mask, Instance: instanceName()})
	o.Hide, o.Ended = s.identities.Hide, s.liftBans
	trail := audit.Options{Prefix: c.RedisPrefix, Host: hostName(), Logger: s.logger}
	if c.Redis != "" {
		address, err := redisconn.NewAddress(connection(c, c.RedisCallTimeout))
		if err != nil {
			return err
		}
		client := address.ConnectAny()
		o.Redis = client
		s.minutes = minutes.New(client, c.RedisPrefix)
		trail.Redis = client
		if c.FollowsModes() {
			f := &followedModes{s, make(map[string]followedMode)}
			s.fleetModes = f.follow(modes.Options{Redis: client})
		}
		s.onClose(func() {
			if err := client.Close(); err != nil {
				s.logger.Debug("closing the connections for exceptions", "error", err)
			}
		})
	}
	s.exceptions = exceptions.New(o)
	trail.Now = s.exceptions.Now
	s.trail = audit.New(trail)
	return nil
}

// liftBans ends what rules with ban= have opened for the client of a ban that was in force until an
// instant. What they have opened since goes on.
func (s *Service) liftBans(ctx context.Context, ban *exceptions.Exception) error {
	lifted, err := s.desk.Lift(ctx, ban.Identity, max(1, s.exceptions.Now().Sub(ban.Until)))
	for i := range lifted {
		change := s.trail.Add(ctx, &audit.Change{Author: ban.Author, Action: "reset", Detail: adminapi.LiftedText(s.desk, &lifted[i], ban)})
		s.traffic.Send(traffic.EventChange, change)
	}
	return err
}

// work calls run in a goroutine until the service closes.
func (s *Service) work(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	s.onClose(func() { cancel(); <-ended })
}

// openTraffic opens the recorders of the traffic and of the heaviest identities.
func (s *Service) openTraffic() {
	s.traffic = traffic.New(traffic.Options{
		Totals: func() traffic.Totals { return trafficTotals(s.metrics) }, Shared: s.minutes, Now: s.exceptions.Now, Logger: s.logger,
	})
	s.heavy = heavy.New(heavy.Options{
		Shared: s.minutes, Mask: s.decisions.mask.InIdentity, Handle: s.identities.Handle, Now: s.exceptions.Now, Logger: s.logger,
		Values: s.valuesOf, Standing: s.standing,
		Rule: func(number int64) *rules.Rule { return s.app.Engine().Rules().Rule(number) },
	})
}

// standing returns what the rules in force do about an identity of a rule, by its number, or of an
// imported limit.
func (s *Service) standing(number int64, limit string, identity map[string]string) heavy.Standing {
	e := s.app.Engine()
	x := e.Ban(rules.MakeParams(identity))
	m, isKnown := s.identify(number, limit, identity)
	if x == nil && isKnown {
		x = e.Exception(&m)
	}
	standing := heavy.Standing{Gone: !isKnown, Direct: isKnown && !m.Rule.Counts()}
	if x != nil {
		standing.Exception = &heavy.Exception{ID: x.ID, What: exceptions.WordOf(x.Kind), Until: time.UnixMilli(x.Until).UTC()}
	}
	return standing
}

// identify returns the match of a rule or of an imported limit for an identity. It reports whether
// one in force has such a match.
func (s *Service) identify(number int64, limit string, identity map[string]string) (m rules.Match, isKnown bool) {
	var err error
	if number != 0 {
		r := s.app.Engine().Rules().Rule(number)
		if r == nil {
			return m, false
		}
		m, err = r.Identify(rules.MakeParams(identity))
		return m, err == nil
	}
	limits := s.limits.Load()
	if limits == nil {
		return m, false
	}
	values := maps.Clone(identity)
	delete(values, "domain") // the path begins with it
	m, _, err = limits.Identify(limit, values)
	return m, err == nil
}

// trafficTotals returns the counts of the metrics as the recorder of the traffic takes
// them.
func trafficTotals(m *metrics.Metrics) traffic.Totals {
	by := m.DecisionTotals()
	t := traffic.Totals{Rules: make(map[traffic.Rule]traffic.Counts)}
	v := &t.Verdicts
	for verdict, n := range by {
		switch verdict {
		case rules.Deny.String(), rules.Challenge.String():
			v.Refused += n
		case metrics.Unavailable:
			v.Unavailable += n
		case metrics.Invalid:
			v.Invalid += n
		case rules.Allow.String(), string(engine.ModeOff):
			v.Allowed += n
		default: // observed-deny and observed-challenge
			v.Observed += n
		}
	}
	for _, r := range m.RuleTotals() {
		t.Add(traffic.Rule{Number: r.Number, Name: r.Name}, traffic.Counts{
			Admitted: int64(r.Admitted), Refused: int64(r.Refused), Near: int64(r.Near), Shadow: int64(r.Shadow),
		})
	}
	return t
}

// operatorState returns the state of the instance for operators.
func (s *Service) operatorState() *adminapi.State {
	r := s.app.Rules()
	now := s.status(r)
	return &adminapi.State{
		Ready: now.Ready, Reason: now.Reason, Generation: r.Generation, Hash: r.Hash, Rules: r.Rules, LoadedAt: r.LoadedAt.UTC(),
		LastError: r.LastError, Fault: r.Fault, Release: r.Release, Store: now.Store, StoreError: now.StoreError, Program: s.version.Version, Host: hostName(),
		Published: s.app.Member() != nil, Signed: s.config.PublishPublicKey != "", FleetModes: s.fleetModes != nil, Now: s.exceptions.Now().UTC(),
	}
}

// connection returns the options of the connections to Redis that do not serve the counters. The
// timeout bounds each dial, read and write.
func connection(c *config.Config, timeout time.Duration) redisconn.Options {
	r := redisOptions(c)
	return redisconn.Options{
		URL: r.URL, Username: r.Username, Password: r.Password,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword, TLS: r.TLS, Timeout: timeout,
	}
}
