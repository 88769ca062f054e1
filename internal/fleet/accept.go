package fleet

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// accept records a new active version. It ends with its work, not with ctx.
func (m *Member) accept(ctx context.Context, v *version) {
	m.mu.Lock()
	before := m.current
	m.current, m.versions[v.manifest.Number] = v, v
	m.accepted = max(m.accepted, v.manifest.Number)
	m.known = max(m.known, m.accepted)
	m.mu.Unlock()
	var changes *reload.Changes
	if before != nil {
		// The version decides already; only its description waits for the pauses.
		changes = reload.ChangesOf(rules.ComparePausing(before.set, v.set, pace.Pauses(pace.With(context.WithoutCancel(ctx)))))
	}
	m.problem = ""
	state := m.change(func(s *reload.State) {
		s.Generation++
		s.Hash, s.Rules, s.LoadedAt, s.Fault, s.LastError, s.Unready = v.set.Hash, len(v.set.Rules), time.Now(), reload.FaultRules, "", ""
		s.Changes, s.Restored, s.SavedAt = changes, false, time.Time{}
		s.Release = &reload.Release{Version: v.manifest.Number, Author: v.manifest.Author, Note: v.manifest.Note, At: v.manifest.At}
	})
	line := []any{"generation", state.Generation, "version", v.manifest.Number, "author", v.manifest.Author, "note", v.manifest.Note, "rules", state.Rules, "hash", state.Hash}
	if changes != nil {
		line = append(line, "changes", changes.String())
	}
	m.o.Logger.Info("rules are active", line...)
	for _, f := range v.findings {
		m.o.Logger.Warn("finding in a rule file", "finding", f.Error())
	}
	m.save(v)
}

// save keeps the version and its number in the folder.
func (m *Member) save(v *version) {
	if m.folder == "" {
		return
	}
	err := m.folder.saveHighest(m.accepted)
	if err == nil && v.contents != nil {
		err = m.folder.save(v.value, v.contents)
	}
	if err != nil {
		m.o.Logger.Warn("cannot save the active version in state_dir; the next start depends on Redis alone", "state_dir", m.o.StateDir, "error", err)
		return
	}
	m.mu.Lock()
	v.contents = nil
	m.mu.Unlock()
}

// change updates the state and passes it to Notify.
func (m *Member) change(f func(*reload.State)) reload.State {
	m.mu.Lock()
	f(&m.state)
	state := m.state
	m.mu.Unlock()
	m.o.Notify(state)
	return state
}

// complain records a problem. An instance that decides by an active version serves on.
func (m *Member) complain(fault reload.Fault, problem string) {
	unready := ""
	if m.active() == nil {
		unready = problem
	}
	m.note(fault, problem, unready)
}

// fail records a problem because of which the instance cannot serve.
func (m *Member) fail(problem string) { m.note(reload.FaultRules, problem, problem) }

// note notes a problem and logs it once. unready is the reason why the instance cannot
// serve, "" if it can.
func (m *Member) note(fault reload.Fault, problem, unready string) {
	if m.problem == problem && m.State().Unready == unready {
		return
	}
	m.problem = problem
	m.change(func(s *reload.State) {
		s.Fault, s.LastError, s.LastErrorAt, s.Unready = fault, problem, time.Now(), unready
	})
	m.o.Logger.Error("the published rules cannot be followed", "version", m.number(), "error", problem)
}

// recover records that the active version is the one in force.
func (m *Member) recover() {
	if s := m.State(); s.LastError == "" && s.Unready == "" {
		return
	}
	m.problem = ""
	m.change(func(s *reload.State) {
		s.Fault, s.LastError, s.Unready, s.Restored, s.SavedAt = reload.FaultRules, "", "", false, time.Time{}
	})
	m.o.Logger.Info("the active rules are the published ones again", "version", m.number())
}
