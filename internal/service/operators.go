package service

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/rules"
)

// adminTokens returns the tokens of the admin address. Without a configured token for
// changes it makes one, whose file it also returns; the file ends with the service.
func (s *Service) adminTokens() (tokens *access.Tokens, file string) {
	c := s.config
	tokens = &access.Tokens{Change: c.AdminToken.Reveal(), Read: c.AdminReadToken.Reveal(), Exposed: !isLocal(s.listeners.admin)}
	if tokens.Change != "" {
		return tokens, ""
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
		return tokens, ""
	}
	s.logger.Info("made a token for changes at the admin address", "path", made.Path)
	s.onClose(func() {
		if err := made.Remove(); err != nil {
			s.logger.Debug("removing the token", "error", err)
		}
	})
	tokens.Change, tokens.Made = made.Token, true
	return tokens, made.Path
}

// observeMatches returns a function that calls all of list; see engine.ObserveMatches.
func observeMatches(list ...func(*engine.Call, *rules.Set, []rules.Match, *engine.Answer)) func(*engine.Call, *rules.Set, []rules.Match, *engine.Answer) {
	return func(c *engine.Call, set *rules.Set, matches []rules.Match, a *engine.Answer) {
		for _, f := range list {
			f(c, set, matches, a)
		}
	}
}
