package fleet

import (
	"context"
	"errors"
	"strings"

	"github.com/koalagate/koalagate/internal/reload"
)

// Records returns the records of the instance.
func (m *Member) Records() *Records { return m.o.Records }

// Propose proposes a version as Records.Propose does, and reports its changes to the rules
// of this instance. It sends contents that Redis has lost and this instance holds. The
// report is nil if this instance has no rules or cannot read the version.
func (m *Member) Propose(ctx context.Context, p *Proposal) (*Manifest, *reload.Changes, error) {
	manifest, err := m.o.Records.propose(ctx, p, m)
	var wrong *missingError
	if errors.As(err, &wrong) {
		if err := m.sendHeld(ctx, p.Manifest); err != nil {
			return nil, nil, err
		}
		manifest, err = m.o.Records.propose(ctx, p, m)
	}
	if err != nil {
		return nil, nil, err
	}
	m.Trigger()
	current := m.active()
	if current == nil {
		return manifest, nil, nil
	}
	// An instance that cannot read the version says so in its answer. The version stays
	// proposed if the caller leaves.
	set, err := m.set(ctx, manifest.Number)
	if err != nil {
		return manifest, nil, nil //nolint:nilerr // see above
	}
	found, err := changes(ctx, current.set, set)
	if err != nil {
		return manifest, nil, nil //nolint:nilerr // see above
	}
	return manifest, found, nil
}

// sendHeld writes the contents of a manifest that this instance holds and Redis lacks.
func (m *Member) sendHeld(ctx context.Context, text []byte) error {
	manifest, err := ParseManifest(text, m.o.Records.o.MaxVersionBytes)
	if err != nil {
		return refused("the version is refused: %v", err)
	}
	for _, b := range manifest.Blobs() {
		has, err := m.o.Records.HasBlob(ctx, b)
		if err != nil {
			return err
		}
		if has {
			continue // Held may read and hash a file of 50 MB
		}
		if content := m.Held(ctx, b); content != nil {
			if err := m.o.Records.WriteBlob(ctx, b, strings.NewReader(string(content))); err != nil {
				return err
			}
		}
	}
	return nil
}
