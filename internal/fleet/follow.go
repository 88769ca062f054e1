package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// version is a version that was loaded.
type version struct {
	manifest *Manifest
	value    []byte // the record in Redis
	// contents are nil if the folder keeps them.
	contents Contents
	set      *rules.Set
	findings rules.Findings
}

func numberText(number uint64) string { return strconv.FormatUint(number, 10) }

// learn remembers the highest number that was seen.
func (m *Member) learn(number uint64) {
	m.mu.Lock()
	m.known = max(m.known, number)
	m.mu.Unlock()
}

// follow acts on the fleet state in a heartbeat's reply.
func (m *Member) follow(b *beaten) {
	if b.err != nil {
		// The text of the error may differ each time.
		if !errors.Is(b.err, context.Canceled) && !m.isAway {
			m.isAway = true
			m.complain(b.err.Error(), m.State().Generation == 0)
		}
		return
	}
	m.isAway, m.inForce = false, b.InForce
	m.learn(b.Last)
	m.forget(b)
	m.followInForce(b)
	m.followProposal(b)
	m.followTrial(b)
}

// forget drops the versions that are no longer needed.
func (m *Member) forget(b *beaten) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.versions, func(n uint64, v *version) bool {
		return v != m.current && n != b.InForce && n != b.Proposed && (n != b.Trial || b.TrialState != "running")
	})
	maps.DeleteFunc(m.failed, func(n uint64, _ time.Time) bool { return n != b.InForce && n != b.Proposed && n != b.Trial })
}

func (m *Member) version(number uint64) *version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versions[number]
}

// number returns the number of the current version, 0 without one.
func (m *Member) number() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		return 0
	}
	return m.current.manifest.Number
}

func (m *Member) followInForce(b *beaten) {
	current := m.number()
	m.next = nil
	switch v := m.version(b.InForce); {
	case b.InForce == current && current > 0:
		m.recover()
	case b.InForce == 0 && current == 0:
		m.complain("no rules have been published yet: koalagate publish PATH", true)
	case b.InForce == 0:
		m.complain("Redis has no published rules (flushed or replaced?); version "+numberText(current)+" stays active; publish it again: koalagate publish --restore", false)
	case b.InForce < m.accepted:
		m.complain(m.outdated(b.InForce).Error(), current == 0)
	case v == nil:
		m.want(b.InForce)
	default:
		// The instant is one of Redis's clock, carried on by the monotonic clock.
		m.next = v
		m.due.Reset(b.At.Sub(b.Now) - time.Since(b.at))
	}
}

// enforce activates the version that is due.
func (m *Member) enforce() {
	if v := m.next; v != nil {
		m.next = nil
		m.apply(v.set)
		m.accept(v)
		select {
		case m.prunes <- struct{}{}:
		default: // a prune is queued
		}
	}
}

// prune removes old versions. Another instance may do so at the same time.
func (m *Member) prune(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstTimeout)
	defer cancel()
	if err := m.o.Records.Prune(ctx); err != nil {
		m.o.Logger.Debug("old versions were not removed", "error", err)
	}
}

func (m *Member) followProposal(b *beaten) {
	m.mu.Lock()
	answered := m.answer.About == b.Proposed
	if b.Proposed == 0 {
		m.answer = Heartbeat{}
	}
	m.mu.Unlock()
	if b.Proposed == 0 || answered {
		return
	}
	switch {
	case b.Proposed <= m.accepted:
		m.say(b.Proposed, fmt.Sprintf("its number is not above %d, which this instance has seen", m.accepted))
	case m.version(b.Proposed) != nil:
		m.say(b.Proposed, ready)
	default:
		m.want(b.Proposed)
	}
}

// say sets the answer about a proposed version, and sends it at once.
func (m *Member) say(number uint64, answer string) {
	m.mu.Lock()
	m.answer = Heartbeat{About: number, Answer: answer}
	m.mu.Unlock()
	m.Trigger()
}

func (m *Member) followTrial(b *beaten) {
	tried := uint64(0)
	if b.TrialState == "running" && b.Trial != b.InForce {
		tried = b.Trial
	}
	v := m.version(tried)
	switch {
	case tried == 0 && m.trying != 0:
		m.trying = 0
		m.o.Try(nil)
	case tried != 0 && v == nil:
		m.want(tried)
	case tried != m.trying:
		m.trying = tried
		m.o.Try(&Tried{Number: tried, Set: v.set})
	}
}

// want loads a version, unless another is being loaded or it failed a moment ago.
func (m *Member) want(number uint64) {
	if m.loading == 0 && time.Since(m.failed[number]) > retryInterval {
		m.loading = number
		m.jobs <- number // never blocks: one is loaded at a time
	}
}

// receive handles the result of loading a version.
func (m *Member) receive(l *loaded) {
	if l.err == nil {
		m.mu.Lock()
		m.versions[l.number] = l.version
		m.mu.Unlock()
		m.Trigger()
		return
	}
	if errors.Is(l.err, context.Canceled) {
		return
	}
	m.failed[l.number] = time.Now()
	m.o.Logger.Error("a version cannot be loaded", "version", l.number, "error", l.err)
	var wrong *RefusedError
	if l.number == m.inForce && (errors.As(l.err, &wrong) || errors.Is(l.err, ErrBlob)) {
		m.complain("version "+numberText(l.number)+" is in force, and this instance cannot load it: "+l.err.Error(), true)
	}
	// The answer counts only while the version is proposed.
	m.say(l.number, l.err.Error())
}

// loadUntil loads versions until ctx is done.
func (m *Member) loadUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case number := <-m.jobs:
			v, err := m.load(ctx, number)
			m.finished <- loaded{number, v, err}
		case <-m.prunes:
			m.prune(ctx)
		}
	}
}

// load reads, checks and parses a version.
func (m *Member) load(ctx context.Context, number uint64) (*version, error) {
	r := m.o.Records
	if err := r.checkPolicy(ctx); err != nil {
		return nil, err
	}
	manifest, value, err := r.versionRecord(ctx, number)
	if err != nil {
		return nil, err
	}
	contents := make(Contents)
	for _, b := range manifest.Blobs() {
		content := m.Held(b)
		if content == nil {
			if content, err = r.ReadBlob(ctx, b); err != nil {
				return nil, fmt.Errorf("version %d: %w", number, err)
			}
		}
		contents[b.Sum] = content
	}
	set, findings, err := Parse(manifest, contents, m.o.Rules)
	if err != nil {
		return nil, refused("%s", findingsText(err, findings))
	}
	return &version{manifest: manifest, value: value, contents: contents, set: set, findings: findings}, nil
}

// maxFindings is the number of findings that an answer lists.
const maxFindings = 20

// findingsText returns the errors among the findings, one per line.
func findingsText(err error, findings rules.Findings) string {
	var lines []string
	more := 0
	for _, f := range findings {
		switch {
		case f.Severity != rules.Error:
		case len(lines) < maxFindings:
			lines = append(lines, f.Error())
		default:
			more++
		}
	}
	if len(lines) == 0 {
		return err.Error()
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// accept records a new active version.
func (m *Member) accept(v *version) {
	m.mu.Lock()
	before := m.current
	m.current, m.versions[v.manifest.Number] = v, v
	m.accepted = max(m.accepted, v.manifest.Number)
	m.known = max(m.known, m.accepted)
	m.mu.Unlock()
	var changes *reload.Changes
	if before != nil {
		changes = reload.ChangesOf(rules.Compare(before.set, v.set))
	}
	m.problem = ""
	state := m.change(func(s *reload.State) {
		s.Generation++
		s.Hash, s.Rules, s.LoadedAt, s.LastError, s.Unready = v.set.Hash, len(v.set.Rules), time.Now(), "", ""
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

// complain records a problem and logs it once. unready says that the service cannot
// serve because of it.
func (m *Member) complain(problem string, unready bool) {
	reason := ""
	if unready {
		reason = problem
	}
	if m.problem == problem && m.State().Unready == reason {
		return
	}
	m.problem = problem
	m.change(func(s *reload.State) { s.LastError, s.LastErrorAt, s.Unready = problem, time.Now(), reason })
	m.o.Logger.Error("the published rules cannot be followed", "version", m.number(), "error", problem)
}

// recover records that the active version is the one in force.
func (m *Member) recover() {
	if s := m.State(); s.LastError == "" && s.Unready == "" {
		return
	}
	m.problem = ""
	m.change(func(s *reload.State) {
		s.LastError, s.Unready, s.Restored, s.SavedAt = "", "", false, time.Time{}
	})
	m.o.Logger.Info("the active rules are the published ones again", "version", m.number())
}
