package fleet

import (
	"context"
	"crypto/sha1" //nolint:gosec // see sumOf
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// version is a version that was loaded.
type version struct {
	manifest *Manifest
	value    []byte // the record in Redis
	sum      string // of value, as in State
	// contents are nil if the folder keeps them.
	contents Contents
	set      *rules.Set
	findings rules.Findings
}

// want loads a version, unless another is being loaded or it failed a moment ago.
func (m *Member) want(number uint64) {
	if m.loading == 0 && time.Since(m.failed[number]) > retryInterval {
		m.loading = number
		m.jobs <- number // never blocks: one is loaded at a time
	}
}

// receive handles the result of loading a version.
func (m *Member) receive(l *loadResult) {
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
		m.fail("version " + numberText(l.number) + " is in force, and this instance cannot load it: " + l.err.Error())
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
			if err == nil {
				m.o.Expect(v.set)
			}
			m.finished <- loadResult{number, v, err}
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
	return &version{manifest: manifest, value: value, sum: sumOf(value), contents: contents, set: set, findings: findings}, nil
}

// sumOf returns the sum of a record as Redis's Lua computes it.
func sumOf(record []byte) string {
	sum := sha1.Sum(record) //nolint:gosec // it tells records apart; signatures protect them
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
