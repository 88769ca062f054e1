package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"
)

func numberText(number uint64) string { return strconv.FormatUint(number, 10) }

// learn remembers the highest number that was seen.
func (m *Member) learn(number uint64) {
	m.mu.Lock()
	m.known = max(m.known, number)
	m.mu.Unlock()
}

// follow acts on the fleet state in a heartbeat's reply.
func (m *Member) follow(b *beatResult) {
	if b.err != nil {
		// The text of the error may differ each time.
		if !errors.Is(b.err, context.Canceled) && !m.isAway {
			m.isAway = true
			m.complain(b.err.Error())
		}
		return
	}
	m.isAway, m.inForce, m.proposed = false, b.InForce, b.ProposedSum
	m.learn(b.Last)
	m.forget(b)
	m.followInForce(b)
	m.followProposal(b)
	m.followTrial(b)
}

// forget drops the versions that are no longer needed.
func (m *Member) forget(b *beatResult) {
	m.mu.Lock()
	before := len(m.versions)
	maps.DeleteFunc(m.versions, func(n uint64, v *version) bool {
		return v != m.current && n != b.InForce && n != b.Proposed && (n != b.Trial || b.TrialState != trialRunning)
	})
	hasDropped := len(m.versions) < before
	m.mu.Unlock()
	if hasDropped {
		m.o.Expect(nil)
	}
	maps.DeleteFunc(m.failed, func(n uint64, _ time.Time) bool { return n != b.InForce && n != b.Proposed && n != b.Trial })
}

func (m *Member) version(number uint64) *version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versions[number]
}

// versionOf returns a loaded version, nil if it has another sum.
func (m *Member) versionOf(number uint64, sum string) *version {
	if v := m.version(number); v != nil && v.hasSum(sum) {
		return v
	}
	return nil
}

func (v *version) hasSum(sum string) bool { return sum == "" || v.sum == sum }

// number returns the number of the current version, 0 without one.
func (m *Member) number() uint64 {
	if v := m.active(); v != nil {
		return v.manifest.Number
	}
	return 0
}

// active returns the current version, nil without one.
func (m *Member) active() *version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

func (m *Member) followInForce(b *beatResult) {
	current := m.number()
	if b.InForce != 0 { // a flush does not undo a switch that the other instances make, too
		m.next = nil
	}
	switch v := m.versionOf(b.InForce, b.InForceSum); {
	case b.InForce == current && current > 0 && m.active().hasSum(b.InForceSum):
		m.recover()
	case b.InForce == 0 && current == 0:
		m.complain("no rules have been published yet: koalagate publish PATH")
	case b.InForce == 0:
		m.complain("Redis has no published rules (flushed or replaced?); version " + numberText(current) + " stays active; publish it again: koalagate publish --restore")
	case b.InForce < m.accepted:
		m.complain(m.outdated(b.InForce).Error())
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

func (m *Member) followProposal(b *beatResult) {
	m.mu.Lock()
	answered := m.answer.About == b.Proposed && m.answer.Sum == b.ProposedSum
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
	case m.versionOf(b.Proposed, b.ProposedSum) != nil:
		m.say(b.Proposed, ready)
	default:
		m.want(b.Proposed)
	}
}

// say sets the answer about a proposed version, and sends it at once.
func (m *Member) say(number uint64, answer string) {
	m.mu.Lock()
	m.answer = Heartbeat{About: number, Answer: answer, Sum: m.proposed}
	m.mu.Unlock()
	m.Trigger()
}

func (m *Member) followTrial(b *beatResult) {
	tried := uint64(0)
	if b.TrialState == trialRunning && b.Trial != b.InForce {
		tried = b.Trial
	}
	v := m.versionOf(tried, b.TrialSum)
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
