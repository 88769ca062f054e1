package cluster

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// maxUndoing bounds the give-backs under way. Further ones are dropped; their
// hits stay until the windows end.
const maxUndoing = 4096

// giveBack gives back the hits that the parts took, in the background and once each, and
// returns a channel that receives each part when that has ended. A part that did
// not answer may have counted nothing, and is left. The subjects belong to the
// caller of Evaluate, who may overwrite them after it returns, so giveBack copies
// them.
func (s *Store) giveBack(parts []*part) <-chan *part {
	done := make(chan *part, len(parts))
	for _, p := range parts {
		if p.err != nil || p.undo == nil {
			done <- p
			continue
		}
		if s.undoing.Add(1) <= maxUndoing {
			cloneSubjects(&p.plan)
			if s.nodes.spawn(&s.nodes.undoing, func() {
				defer s.undoing.Add(-1)
				s.giveBackPart(p)
				done <- p
			}) {
				continue
			}
		}
		s.undoing.Add(-1)
		s.stranded.Add(1)
		done <- p
	}
	return done
}

func (s *Store) giveBackPart(p *part) {
	ctx, cancel := context.WithTimeout(s.nodes.ctx, s.evaluator.Budget())
	defer cancel()
	c := s.evaluator.Acquire(&p.plan)
	c.Slot = p.slot
	c.GiveBack(p.undo, tagOf(p.slot), p.after.Receipt)
	// It is not repeated: a call without an answer may have given back.
	abandoned, err := s.nodes.Send(ctx, c)
	if err != nil {
		s.stranded.Add(1)
	}
	s.evaluator.Changed(c, &p.plan)
	if !abandoned {
		s.evaluator.Release(c)
	}
}

// wait waits until every part was received from done. If the caller's time ends
// first, the error names the node that has not given back.
func wait(ctx context.Context, done <-chan *part, parts []*part) error {
	rest := slices.Clone(parts)
	for len(rest) > 0 {
		select {
		case one := <-done:
			rest = slices.DeleteFunc(rest, func(p *part) bool { return p == one })
		case <-ctx.Done():
			return &nodeError{addr: ofSlot(rest[0].slot), err: fmt.Errorf("redis: give back before the take is repeated: %w", ctx.Err())}
		}
	}
	return nil
}

// cloneSubjects replaces the subjects of a part's plan by copies.
func cloneSubjects(p *store.Plan) {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			r.Subject = bytes.Clone(r.Subject)
		}
	}
}
