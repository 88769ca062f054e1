package service

import (
	"fmt"
	"os"

	"github.com/koalagate/koalagate/internal/app"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/fleet"
)

// openPublished connects the app to the published rules, if they are configured.
func (s *Service) openPublished(o *app.Options) error {
	c := s.config
	if !c.IsPublished() {
		return nil
	}
	key, err := publicKey(c)
	if err != nil {
		return err
	}
	if key != nil {
		if err := fleet.CheckStateDir(c.StateDir); err != nil {
			return fmt.Errorf("state_dir, which publish_public_key requires: %w", err)
		}
	}
	records, err := fleet.Open(fleet.Options{
		Redis:  connection(c, c.RedisCallTimeout),
		Prefix: c.RedisPrefix, MaxVersionBytes: int64(c.MaxVersionBytes), Keep: c.KeepVersions, PublicKey: key,
	})
	if err != nil {
		return err
	}
	s.onClose(func() {
		if err := records.Close(); err != nil {
			s.logger.Debug("closing the connections for published rules", "error", err)
		}
	})
	published := o.Files.Rules
	published.OpenToken = s.publishedToken
	o.Published = &fleet.MemberOptions{
		Records: records, Rules: published, StateDir: c.StateDir, Describe: s.describe(c), Try: s.trials.want,
	}
	return nil
}

// publicKey returns the key that verifies versions and exceptions, nil for none.
func publicKey(c *config.Config) (fleet.PublicKey, error) {
	if c.PublishPublicKey == "" {
		return nil, nil
	}
	key, err := fleet.ReadPublicKey(c.PublishPublicKey)
	if err != nil {
		return nil, fmt.Errorf("publish_public_key: %w", err)
	}
	return key, nil
}

// describe returns a function that describes the instance for the fleet.
func (s *Service) describe(c *config.Config) func() fleet.Instance {
	host := hostName()
	return func() fleet.Instance {
		one := fleet.Instance{Host: host, PID: os.Getpid(), Program: s.version.Version, Store: storeOf(c), Modes: make(map[string]string)}
		if s.app != nil {
			one.Store = s.app.StoreKind()
		}
		for _, door := range doorname.Served() {
			one.Modes[door] = string(s.modes.Of(door))
		}
		return one
	}
}
