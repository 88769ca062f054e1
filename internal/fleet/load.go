package fleet

import (
	"context"
	"crypto/sha1" //nolint:gosec // see sumOf
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// version is a version that was loaded.
type version struct {
	manifest *Manifest
	value    []byte  // the record in Redis; once the version is loaded, it changes under Member.mu, as purpose does
	sum      string  // of its manifest, as in State
	purpose  Purpose // of its signature
	// contents are nil if the folder keeps them.
	contents Contents
	set      *rules.Set
	findings rules.Findings
}

// job is a version to load, by its number and its sum in State.
type job struct {
	number uint64
	sum    string
}

// want loads a version, unless another is being loaded or it failed a moment ago.
func (m *Member) want(number uint64, sum string) {
	if m.loading == 0 && time.Since(m.failed[number]) > retryInterval {
		m.loading = number
		m.jobs <- job{number, sum} // never blocks: one is loaded at a time
	}
}

// receive handles the result of loading a version.
func (m *Member) receive(l *loadResult) {
	if l.err == nil {
		m.mu.Lock()
		m.versions[l.number] = l.version
		m.known = max(m.known, l.number)
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
	isRefused := errors.As(l.err, &wrong)
	switch {
	case l.number != m.inForce:
	case isRefused && wrong.untrusted:
		m.complain(reload.FaultRules, m.ignored(l.number, l.err))
	case isRefused || errors.Is(l.err, ErrBlob):
		m.fail("version " + numberText(l.number) + " is in force, and this instance cannot load it: " + l.err.Error())
	}
	// The answer counts only while the version is proposed.
	m.say(l.number, l.err.Error())
}

// ignored explains why this instance does not take what Redis names as in force.
func (m *Member) ignored(number uint64, err error) string {
	text := fmt.Sprintf("Redis names version %d as the one in force, and this instance does not take it: %v", number, err)
	if v := m.active(); v != nil {
		text += fmt.Sprintf("; version %d stays active", v.manifest.Number)
	}
	return text
}

// loadUntil loads versions until ctx is done.
func (m *Member) loadUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-m.jobs:
			v, err := m.load(pace.With(ctx), j)
			if err == nil {
				m.o.Expect(ctx, v.set)
			}
			m.finished <- loadResult{j.number, v, err}
		}
	}
}

// maintainUntil keeps the history in Redis until ctx is done. It may take as long as it wants:
// a proposal waits for its versions alone.
func (m *Member) maintainUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.prunes:
			m.prune(ctx)
		case <-m.losses:
			err := m.writeBack(ctx)
			m.isUnwritten.Store(err != nil)
			if err != nil && !errors.Is(err, errWriting) && ctx.Err() == nil {
				m.o.Logger.Warn("the active version, which Redis has lost, cannot be written back to its history; it is tried again", "version", m.number(), "after", writeAgain.String(), "error", err)
			}
		}
	}
}

// load reads, checks and parses a version. The sum of the job may be "".
func (m *Member) load(ctx context.Context, j job) (*version, error) {
	r := m.o.Records
	if err := r.checkPolicy(ctx); err != nil {
		return nil, err
	}
	v, err := r.versionRecord(ctx, j.number)
	switch known := m.Known(); {
	case err != nil:
		return nil, err
	case !v.hasSum(j.sum):
		return nil, fmt.Errorf("version %d: its record is another one than Redis states", j.number)
	case j.number > known+maxStep:
		return nil, r.untrusted("version %d is refused: its number is more than %d above %d, the highest that this instance knows", j.number, int64(maxStep), known)
	}
	if err := m.fill(ctx, v); err != nil {
		if !r.mayDecide(v.purpose) {
			err = r.untrusted("%v", err)
		}
		return nil, err
	}
	return v, nil
}

// fill reads the contents of a version and parses them.
func (m *Member) fill(ctx context.Context, v *version) error {
	contents := make(Contents)
	for _, b := range v.manifest.Blobs() {
		content := m.Held(ctx, b)
		if content == nil {
			var err error
			if content, err = m.o.Records.ReadBlob(ctx, b); err != nil {
				return fmt.Errorf("version %d: %w", v.manifest.Number, err)
			}
		}
		contents[b.Sum] = content
	}
	set, findings, err := Parse(ctx, v.manifest, contents, m.o.Rules)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return refused("%s", findingsText(err, findings))
	}
	v.contents, v.set, v.findings = contents, set, findings
	return nil
}

// loadInForce is load for the version in force, which must be signed as such.
func (m *Member) loadInForce(ctx context.Context, number uint64) (*version, error) {
	head, err := m.o.Records.versionRecord(ctx, number)
	if err != nil {
		return nil, err
	}
	if !m.o.Records.mayDecide(head.purpose) {
		return nil, m.o.Records.untrusted("%s", notInForce(number))
	}
	return m.load(ctx, job{number, head.sum})
}

func notInForce(number uint64) string {
	return fmt.Sprintf("version %d is not signed as the one in force: it was refused, lapsed or only tried", number)
}

// sumOf returns the sum of the manifest in a record: as if it had no signature, which changes
// when the version comes into force.
func sumOf(value []byte) string {
	_, text, _ := cutRecord(value)    // an invalid record has the sum of an empty one
	sum := sha1.Sum(record(text, "")) //nolint:gosec // it tells manifests apart; signatures protect them
	return hex.EncodeToString(sum[:])
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
