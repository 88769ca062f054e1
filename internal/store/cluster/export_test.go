package cluster

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// SlotOf returns the slot of a key.
func SlotOf(key string) int { return int(slotOf([]byte(key))) }

// Key returns the key of a subject.
func Key(prefix, subject string) string {
	e, err := redis.NewEvaluator(&redis.Options{Prefix: prefix, Refusals: -1})
	if err != nil {
		panic(err)
	}
	return string(e.AppendKey(nil, []byte(subject)))
}

// AsksFirst reports whether a take over several slots asks the slots first.
func AsksFirst(p *store.Plan) bool { return !isPlain(p) }

// AwaitUndone waits until everything is given back.
func (s *Store) AwaitUndone() { s.nodes.undoing.Wait() }

// TakePart takes in one slot like a part of a larger take, and returns the part.
func (s *Store) TakePart(ctx context.Context, p *store.Plan) (*part, error) {
	one := s.split(p, p.Op, everyRule)[0]
	s.runPart(ctx, one)
	return one, one.err
}

// GiveBack gives back what a part took, as a refused take does.
func (s *Store) GiveBack(taken *part) { s.giveBack([]*part{taken}) }

// FillUndoing makes the store count as many give-backs as it allows.
func (s *Store) FillUndoing() (end func()) {
	s.undoing.Add(maxUndoing)
	return func() { s.undoing.Add(-maxUndoing) }
}

// Undoing returns the number of parts that are being given back.
func (s *Store) Undoing() int64 { return s.undoing.Load() }

// KnownNodes returns the addresses of the known nodes.
func (s *Store) KnownNodes() (list []string) {
	for _, n := range s.nodes.all() {
		list = append(list, n.addr)
	}
	return list
}

// ForgetNames makes the nodes appear not to have been named for long.
func (s *Store) ForgetNames() {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	for _, n := range s.nodes.known {
		n.named = time.Time{}
	}
}
