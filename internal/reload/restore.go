package reload

import "github.com/koalagate/koalagate/rules"

// restore puts the rules that were kept in force, in place of files that are not
// fit to be, and returns them; nil if there are none.
func (r *Reloader) restore(findings rules.Findings, fault error) *rules.Set {
	if r.options.StateDir == "" {
		return nil
	}
	set, savedAt, err := kept{r.options.StateDir}.restore(r.options.Files)
	if err != nil {
		r.options.Logger.Error("state_dir has no rules to start with", "state_dir", r.options.StateDir, "error", err)
		return nil
	}
	faults := describe(findings, fault)
	r.inForce, r.refused = set, r.last.content()
	state := r.change(func(s *State) {
		s.Generation, s.Hash, s.Rules, s.LoadedAt = 1, set.Hash, len(set.Rules), r.options.Clock()
		s.LastError, s.LastErrorAt = summary(faults), s.LoadedAt
		s.Restored, s.SavedAt = true, savedAt
	})
	r.options.Logger.Error("the rule files are refused; starting with the rules that were last in force: mend the files",
		"kept_since", savedAt, "state_dir", r.options.StateDir, "hash", state.Hash, "findings", faults)
	return set
}

// keep has the rules in force kept for the next start.
func (r *Reloader) keep(set *rules.Set) {
	if r.options.StateDir == "" {
		return
	}
	if err := (kept{r.options.StateDir}).save(set, r.options.Files, r.last, r.options.Clock()); err != nil {
		r.options.Logger.Warn("the rules in force could not be kept in state_dir; the next start depends on the rule files alone", "state_dir", r.options.StateDir, "error", err)
	}
}
