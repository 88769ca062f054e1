package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/reload"
)

func numberText(number uint64) string { return strconv.FormatUint(number, 10) }

// follow acts on the fleet state in a heartbeat's reply.
func (m *Member) follow(b *beatResult) {
	if b.err != nil {
		// The text of the error may differ each time.
		if !errors.Is(b.err, context.Canceled) && !m.isAway {
			m.isAway = true
			m.complain(faultOf(b.err), b.err.Error())
		}
		return
	}
	m.isAway, m.inForce, m.proposed = false, b.InForce, b.ProposedSum
	m.forget(b)
	m.noteLoss(b)
	m.followInForce(b)
	m.followProposal(b)
	m.followTrial(b)
}

// noteLoss has the active version written back once whenever Redis has lost what is in force, and
// again from time to time until that has succeeded.
func (m *Member) noteLoss(b *beatResult) {
	before := m.hasLost
	m.hasLost = b.InForce == 0 && m.active() != nil
	if !m.hasLost || before && (!m.isUnwritten.Load() || time.Now().Before(m.again)) {
		return
	}
	m.again = time.Now().Add(writeAgain)
	select {
	case m.losses <- struct{}{}:
	default: // it is noted already
	}
}

// forget drops the versions that are no longer needed.
func (m *Member) forget(b *beatResult) {
	var dropped []*version
	m.mu.Lock()
	maps.DeleteFunc(m.versions, func(n uint64, v *version) bool {
		if v == m.current || n == b.InForce || n == b.Proposed || n == b.Trial && b.TrialState == trialRunning {
			return false
		}
		dropped = append(dropped, v)
		return true
	})
	m.mu.Unlock()
	for _, v := range dropped {
		m.o.Forget(v.set)
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
	current, isSigned := m.active(), m.o.Records.o.PublicKey != nil
	if b.InForce != 0 && !isSigned { // a flush does not undo a switch that the other instances make, too
		m.next = nil
	}
	v := m.versionOf(b.InForce, b.InForceSum)
	switch {
	case b.InForce == 0 && current == nil:
		m.complain(reload.FaultRules, "no rules have been published yet: koalagate publish PATH")
	case b.InForce == 0:
		m.complain(reload.FaultLost, "Redis has no published rules (flushed or replaced?); version "+numberText(current.manifest.Number)+" stays active; publish it again: koalagate publish --restore")
	case b.InForce < m.accepted:
		m.complain(reload.FaultLost, m.outdated(b.InForce).Error())
	case v == nil && isSigned && b.InForce == m.number():
		m.complain(reload.FaultRules, m.ignored(b.InForce, errors.New("its number is the one of another version, which this instance has seen")))
	case v == nil:
		m.want(b.InForce, b.InForceSum)
	case !m.sign(v, b.Signature):
	case v == current:
		m.recover()
	default:
		// The instant is one of Redis's clock, carried on by the monotonic clock.
		m.next = v
		m.due.Reset(min(b.At.Sub(b.Now), maxNotice) - time.Since(b.at))
	}
}

// maxNotice bounds the time from the commit of a version to its instant. The scripts take
// half of it.
const maxNotice = time.Second

// sign notes the signature with which Redis has a version in force, and reports whether
// this instance may decide by it.
func (m *Member) sign(v *version, signature string) bool {
	r := m.o.Records
	_, text, _ := cutRecord(v.value) // it was cut when it was opened
	value := record(text, signature)
	if r.o.PublicKey == nil || r.mayDecide(v.purpose) && bytes.Equal(value, v.value) {
		return true
	}
	number := v.manifest.Number
	_, purpose, err := r.openRecord(number, value)
	if err == nil && !r.mayDecide(purpose) {
		err = errors.New(notInForce(number))
	}
	if err != nil {
		m.complain(reload.FaultRules, m.ignored(number, err))
		return false
	}
	m.mu.Lock()
	v.value, v.purpose = value, purpose
	m.mu.Unlock()
	return true
}

// enforce activates the version that is due.
func (m *Member) enforce(ctx context.Context) {
	if v := m.next; v != nil {
		m.next = nil
		m.apply(v.set)
		m.accept(ctx, v)
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
	case b.Proposed > m.accepted && m.versionOf(b.Proposed, b.ProposedSum) != nil:
		m.say(b.Proposed, ready)
	case b.Proposed <= m.Known():
		m.say(b.Proposed, fmt.Sprintf("its number is not above %d, which this instance has seen; publish again", m.Known()))
	default:
		m.want(b.Proposed, b.ProposedSum)
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
	if v != nil && !m.mayTry(v, b.Now) {
		tried, v = 0, nil
	}
	switch {
	case tried == 0 && m.trying != 0:
		m.trying = 0
		m.o.Try(nil)
	case tried != 0 && v == nil:
		m.want(tried, b.TrialSum)
	case tried != m.trying:
		m.trying = tried
		m.o.Try(&Tried{Number: tried, Set: v.set})
	}
}

// mayTry reports whether this instance may try a version: with a key, only if it was signed
// for a trial that is not over.
func (m *Member) mayTry(v *version, now time.Time) bool {
	if m.o.Records.o.PublicKey == nil {
		return true
	}
	o := v.purpose.trial()
	return o != nil && now.Before(v.manifest.At.Add(maxTimeout+o.Length+maxNotice))
}
