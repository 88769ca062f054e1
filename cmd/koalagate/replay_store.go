package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

const (
	// storeMemory is the word for the in-process store.
	storeMemory = "memory"
	// replayBudget is the longest that Redis may take for an answer: nobody
	// waits for a replay.
	replayBudget = 10 * time.Second
	// replayLinger is for how long Redis keeps what a replay counts. It goes by
	// its own clock, and a busy second of a trace may take it longer than one.
	replayLinger = 24 * time.Hour
	// clearTime is the longest that the removal of the keys may take.
	clearTime = time.Minute
)

// replayStore is where a replay counts.
type replayStore struct {
	store.Store
	fault error // why the store had no answer
	clear func(context.Context) error
}

// openReplayStore opens the store of a replay: memory, or a Redis under a
// prefix that nobody else has.
func openReplayStore(where, prefix string) (*replayStore, error) {
	if where == storeMemory {
		m := store.NewMemory(store.MemoryOptions{})
		return &replayStore{Store: m, clear: func(context.Context) error { m.Close(); return nil }}, nil
	}
	store.LogClient(func(string) {}) // its errors come with the answers, too
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	r, err := store.NewRedis(store.RedisOptions{
		URL: where, Prefix: prefix + "-" + hex.EncodeToString(random[:]), Budget: replayBudget, Linger: replayLinger,
	})
	if err != nil {
		return nil, err
	}
	return &replayStore{Store: r, clear: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, clearTime)
		defer cancel()
		defer r.Close()
		return r.Clear(ctx)
	}}, nil
}

// Evaluate notes why there is no answer: the engine only tells that there is
// none.
func (s *replayStore) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	s.fault = s.Store.Evaluate(ctx, p, a)
	return s.fault
}
