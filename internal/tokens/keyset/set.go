package keyset

import (
	"bytes"
	"context"
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

	keys    atomic.Pointer[tokens.Keys]
	want    chan struct{} // a token has named a key that is not among them
	changed chan struct{} // refresh has changed
	ready   chan struct{} // closed once there are keys, or a fetch has ended

	mu      sync.Mutex
	refresh time.Duration // the shortest of the lines that use it
	state   State

	// The rest belongs to keep.
	isReady bool
	text    []byte // of the keys
	tag     string // the ETag of the text
	from    string // the address of the text
}

func newSet(k *Keeper, at place, refresh time.Duration) *set {
	s := &set{
		keeper: k, at: at, want: make(chan struct{}, 1), changed: make(chan struct{}, 1), ready: make(chan struct{}),
		refresh: refresh, state: State{At: k.o.Now()},
	}
	s.ctx, s.stop = context.WithCancel(k.ctx)
	return s
}

// use notes the lines of [tokens] that use the set: their shortest refresh, which stays as it was
// without any, and their names.
func (s *set) use(refresh time.Duration, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Tokens = names
	if refresh == 0 || refresh == s.refresh {
		return
	}
	s.refresh = refresh
	select {
	case s.changed <- struct{}{}:
	default: // pause has not seen an earlier change yet
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
// token may bring it forward, and lines with another refresh move it.
func (s *set) pause(began time.Time, failed bool) bool {
	span, want := s.interval(failed), s.want
	for {
		rest := min(span-s.keeper.o.Now().Sub(began), span)
		if rest <= 0 {
			return true
		}
		select {
		case <-s.ctx.Done():
			return false
		case <-s.keeper.o.After(rest):
			return true
		case <-s.changed:
			if want != nil {
				span = s.interval(failed)
			}
		case <-want:
			span, want = wantInterval, nil
		}
	}
}

// interval returns the time between the beginnings of the last fetch and the next one.
func (s *set) interval(failed bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed {
		return min(s.refresh, retryInterval)
	}
	return s.refresh
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
		s.keeper.o.Logger.Warn("some keys of tokens are not in use", "keys", s.at.address, "reason", tokens.Reasons(keys.Skipped))
	}
	return nil
}

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
	if keys := s.keys.Load(); keys != nil {
		state.Keys = keys.Len()
	}
	return state
}
