package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/koalagate/koalagate/internal/fleet"
)

// overtaken returns the error of a proposal. A conflict with another publish also has what that
// one changes in the version from which the proposal began.
func (s *server) overtaken(ctx context.Context, m *fleet.Member, manifest string, err error) error {
	var conflict *fleet.ConflictError
	if !errors.As(err, &conflict) {
		return err
	}
	mine, invalid := fleet.ParseManifest([]byte(manifest), m.Records().Options().MaxVersionBytes)
	if invalid != nil {
		return err
	}
	p := problemOf(err)
	p.Detail += changedBy(ctx, m, mine.Before, cmp.Or(conflict.Running, conflict.InForce))
	return p
}

// overtakenLater returns the detail of a proposal with a number that another version overtook
// while the instances answered, with what that one changes. To compare two versions takes seconds
// of a processor, so that this needs the place; without it the detail stands alone.
func (s *server) overtakenLater(ctx context.Context, m *fleet.Member, number uint64, detail string) string {
	free := s.line.Take(ctx, readerWait)
	if free == nil {
		return detail
	}
	defer free()
	mine, _, err := m.Records().Version(ctx, number)
	if err != nil {
		return detail
	}
	now, err := m.Standing(ctx)
	if err != nil {
		return detail
	}
	return detail + changedBy(ctx, m, mine.Before, now.InForce)
}

// changedBy returns whose version another is and what it changes, as the end of a detail, and
// "" if the instance cannot read it.
func changedBy(ctx context.Context, m *fleet.Member, before, other uint64) string {
	if other == 0 || other == before {
		return ""
	}
	winner, _, err := m.Records().Version(ctx, other)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("; version %d is by %s", other, winner.Author)
	if winner.Note != "" {
		text += fmt.Sprintf(" (%s)", winner.Note)
	}
	if before == 0 {
		return text
	}
	changes, err := m.Changes(ctx, before, other)
	if err != nil {
		return text
	}
	return text + fmt.Sprintf(", and changes in version %d: %s", before, changes)
}
