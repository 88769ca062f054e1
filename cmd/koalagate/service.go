package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// service is what runs between the wiring and the end of the process.
type service struct {
	logger       *slog.Logger
	drainWait    time.Duration
	drainTimeout time.Duration

	listeners *listeners
	front     *envoy.Server
	web       *http.Server
	admin     *http.Server
	loader    *reload.Reloader
	apply     func(*rules.Set)
	hangup    <-chan os.Signal // asks for the rules to be read again, and logs to be opened anew
	reopen    func()
	draining  *atomic.Bool
}

// lastResort is what the parts get to end in after the drain's time is over.
const lastResort = 500 * time.Millisecond

// run serves until a signal comes by stop, or until a part fails, which ends the
// others. It returns drainTimeout and a little after that, whatever callers keep
// open.
func (s *service) run(ctx context.Context, stop <-chan os.Signal) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()

	var parts sync.WaitGroup
	ended := make(chan error, 4) // one a part: none waits for a reader
	start := func(part func() error) { parts.Go(func() { ended <- part() }) }
	start(func() error { return s.front.Serve(s.listeners.grpc) })
	start(func() error { return serveHTTP(s.web, s.listeners.http) })
	start(func() error { return serveHTTP(s.admin, s.listeners.admin) })
	start(func() error { s.loader.Run(running, s.apply); return nil })

	fault := s.wait(stop, ended)
	asked := time.Now() // before anybody can see that it drains
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.drain(ctx)
		cancel()
		parts.Wait()
	}()
	if err := s.awaitEnd(asked, stop, over); err != nil {
		return err
	}
	s.logger.Info("ended")
	return fault
}

// sameSignal is how long after a signal another one counts as its echo:
// timeout(1) and some supervisors signal a process and then its group.
const sameSignal = 100 * time.Millisecond

// awaitEnd returns once the service, which was asked to end, is over, or has had
// its time; with an error if somebody is in a hurry and signals again.
func (s *service) awaitEnd(asked time.Time, stop <-chan os.Signal, over <-chan struct{}) error {
	limit := time.NewTimer(s.drainTimeout + lastResort)
	defer limit.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-limit.C:
			s.logger.Warn("a part of the service did not end in time")
			return nil
		case <-stop:
			if time.Since(asked) >= sameSignal {
				return failed("ended at once by a second signal")
			}
		}
	}
}

// wait returns when the service has to end: nil for a signal, else why.
func (s *service) wait(stop <-chan os.Signal, ended <-chan error) error {
	for {
		select {
		case <-s.hangup:
			s.loader.Trigger()
			s.reopen()
		case received := <-stop:
			s.logger.Info("draining", "signal", received.String(), "wait", s.drainWait.String(), "timeout", s.drainTimeout.String())
			return nil
		case err := <-ended:
			s.logger.Error("a part of the service ended", "error", err)
			return failed("a part of the service ended: %w", err)
		}
	}
}

// drain tells callers that the service goes away, waits until they have
// noticed, lets the calls under way end and cuts off what is left.
func (s *service) drain(ctx context.Context) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, s.drainTimeout)
	defer cancel()
	var doors sync.WaitGroup
	doors.Go(func() {
		if err := s.front.Drain(ctx); err != nil {
			s.logger.Warn("gRPC calls were cut off", "error", err)
		}
	})
	doors.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(s.drainWait):
		}
		s.turnAway(ctx)
		s.shut(ctx, s.web, "HTTP calls were cut off")
	})
	doors.Wait()
	// Last, so that it could be read until now that the service is going. A
	// profile under way is nobody's loss.
	if err := s.admin.Close(); err != nil {
		s.logger.Debug("closing the admin address", "error", err)
	}
}

// newcomers is how long those who have just connected get to ask: a round trip,
// and the pauses of a busy machine.
const newcomers = 100 * time.Millisecond

// turnAway takes no more connections on HTTP, and leaves those that are there
// time to ask. Shutdown would end one that was made before it without an answer
// to the request that is read after.
func (s *service) turnAway(ctx context.Context) {
	if err := s.listeners.http.Close(); err != nil {
		s.logger.Debug("closing the HTTP address", "error", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(newcomers):
	}
}

// shut ends a server once its requests are answered, or ctx is done.
func (s *service) shut(ctx context.Context, server *http.Server, cutOff string) {
	if err := server.Shutdown(ctx); err != nil {
		s.logger.Warn(cutOff, "error", err)
		// What Shutdown could not wait for is closed; there is no more to do.
		_ = server.Close()
	}
}

// serveHTTP serves until the server is shut or its listener closed, which is no
// error.
func serveHTTP(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}
