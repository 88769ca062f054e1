package reload

import "github.com/koalagate/koalagate/rules"

// restore activates the rules in StateDir instead of invalid files, and returns
// them, or nil if there are none. The findings and loadErr describe the files.
func (r *Reloader) restore(findings rules.Findings, loadErr error) *rules.Set {
	if r.options.StateDir == "" {
		return nil
	}
	set, savedAt, err := kept{r.options.StateDir}.restore(r.options.Files)
	if err != nil {
		r.options.Logger.Error("state_dir contains no usable rules", "state_dir", r.options.StateDir, "error", err)
		return nil
	}
	problems := describe(findings, loadErr)
	r.active, r.rejected = set, r.last.content()
	state := r.change(func(s *State) {
		s.Generation, s.Hash, s.Rules, s.LoadedAt = 1, set.Hash, len(set.Rules), r.options.Clock()
		s.LastError, s.LastErrorAt = summary(problems), s.LoadedAt
		s.Restored, s.SavedAt = true, savedAt
	})
	r.options.Logger.Error("the rule files are invalid; starting with the last active rules; fix the files",
		"kept_since", savedAt, "state_dir", r.options.StateDir, "hash", state.Hash, "findings", problems)
	return set
}

// save copies the active rules to StateDir for the next start.
func (r *Reloader) save(set *rules.Set) {
	if r.options.StateDir == "" {
		return
	}
	if err := (kept{r.options.StateDir}).save(set, r.options.Files, r.last, r.options.Clock()); err != nil {
		r.options.Logger.Warn("cannot save the active rules in state_dir; the next start depends on the rule files alone", "state_dir", r.options.StateDir, "error", err)
	}
}
