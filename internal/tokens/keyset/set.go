package keyset

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// set are the keys of one address.
type set struct {
	keeper *Keeper
	at     place
	ctx    context.Context
	stop   context.CancelFunc

	keys  atomic.Pointer[tokens.Keys]
	want  chan struct{} // a token has named a key that is not among them
	ready chan struct{} // closed once there are keys, or a fetch has ended

	mu      sync.Mutex
	refresh time.Duration // the shortest of the lines that use it
	state   State

	// The rest belongs to keep.
	isReady bool
	text    []byte // of the keys
	tag     string // the ETag of the text
	from    string // the address of the text
}

func newSet(k *Keeper, at place) *set {
	s := &set{keeper: k, at: at, want: make(chan struct{}, 1), ready: make(chan struct{}), state: State{At: k.o.Now()}}
	s.ctx, s.stop = context.WithCancel(k.ctx)
	return s
}

// use notes a line of [tokens] that uses the set.
func (s *set) use(t *rules.JWT) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refresh == 0 || t.Refresh < s.refresh {
		s.refresh = t.Refresh
	}
	if !slices.Contains(s.state.Tokens, t.Name) {
		s.state.Tokens = append(s.state.Tokens, t.Name)
	}
}

// Keys returns the keys in force, nil without any.
func (s *set) Keys() *tokens.Keys { return s.keys.Load() }

// Want asks for a key that is not among them. It does not wait for it.
func (s *set) Want(string) {
	select {
	case s.want <- struct{}{}:
	default: // a fetch is already due
	}
}

// keep fetches the keys until the set ends.
func (s *set) keep() {
	for {
		began := s.keeper.o.Now()
		err := s.fetch()
		if s.ctx.Err() != nil {
			return
		}
		s.note(err)
		s.beReady()
		if !s.pause(began, err != nil) {
			return
		}
	}
}

// pause waits for the time of the next fetch, and reports whether the set is still in use. A
// token may bring it forward.
func (s *set) pause(began time.Time, failed bool) bool {
	s.mu.Lock()
	span := s.refresh
	s.mu.Unlock()
	if failed {
		span = min(span, retryInterval)
	}
	select {
	case <-s.ctx.Done():
		return false
	case <-s.keeper.o.After(span):
		return true
	case <-s.want:
	}
	rest := wantInterval - s.keeper.o.Now().Sub(began)
	if rest <= 0 {
		return true
	}
	select {
	case <-s.ctx.Done():
		return false
	case <-s.keeper.o.After(min(rest, wantInterval)):
		return true
	}
}

// beReady ends the waiting of rule sets.
func (s *set) beReady() {
	if !s.isReady {
		s.isReady = true
		close(s.ready)
	}
}

// fetch fetches the keys, and keeps the former ones if that fails.
func (s *set) fetch() error {
	ctx, cancel := context.WithTimeout(s.ctx, fetchTime)
	defer cancel()
	address := s.at.address
	if s.at.from == rules.FromIssuer {
		var err error
		if address, err = s.keeper.discover(ctx, s.at.address); err != nil {
			return err
		}
	}
	tag := ""
	if address == s.from && s.keys.Load() != nil {
		tag = s.tag
	}
	text, tag, err := s.keeper.get(ctx, address, tag)
	if err != nil {
		return err
	}
	if text != nil { // otherwise they have not changed
		if err := s.accept(text); err != nil {
			return err
		}
		s.tag, s.from = tag, address
	}
	s.save()
	return nil
}

// accept puts keys in force. Equal ones stay the same, so that tokens stay verified.
func (s *set) accept(text []byte) error {
	if s.keys.Load() != nil && bytes.Equal(text, s.text) {
		return nil
	}
	keys, err := tokens.ParseKeys(text, false)
	if err != nil {
		return err
	}
	s.text = text
	s.keys.Store(keys)
	s.keeper.o.Logger.Info("keys of tokens are in use", "keys", s.at.address, "number", keys.Len())
	if len(keys.Skipped) > 0 {
		s.keeper.o.Logger.Warn("some keys of tokens are not in use", "keys", s.at.address, "reason", errors.Join(keys.Skipped[:min(len(keys.Skipped), maxReasons)]...))
	}
	return nil
}

// maxReasons is the number of keys whose faults are logged.
const maxReasons = 10

// note counts a fetch.
func (s *set) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Fetches++
	before := s.state.LastError
	s.state.LastError = ""
	if err == nil {
		s.state.At = s.keeper.o.Now()
		if before != "" {
			s.keeper.o.Logger.Info("the keys of tokens can be fetched again", "keys", s.at.address)
		}
		return
	}
	s.state.Failures++
	s.state.LastError = err.Error()
	if before == s.state.LastError {
		return // it has been logged
	}
	s.keeper.o.Logger.Error("the keys of tokens cannot be fetched", "keys", s.at.address, "error", err, "kept", s.keys.Load() != nil,
		"remedy", "see that this address answers this machine with a JWK set; koalagate tries again and keeps the last good keys, and tokens are unavailable without any")
}

// now returns the state of the set.
func (s *set) now() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Tokens = slices.Clone(state.Tokens)
	if keys := s.keys.Load(); keys != nil {
		state.Keys = keys.Len()
	}
	return state
}
