package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/systemd"
)

// endGrace is the time that the parts have to end after the timeout of the drain.
const endGrace = 500 * time.Millisecond

// Run serves until a signal arrives on stop or a part fails, drains, and closes the
// service. A second signal on stop ends it at once, with an error. Each signal on
// hangup reloads the rules and reopens the decision log. Run waits for callers until
// drain_timeout and endGrace after the first signal at the latest, whatever they keep open.
// After that, and after a second signal, it closes the service: if Redis hangs, the calls of
// Redis that are under way still have their time, some seconds.
func (s *Service) Run(ctx context.Context, stop, hangup <-chan os.Signal) error {
	defer s.Close()
	running, cancel := context.WithCancel(ctx)
	defer cancel()

	a := s.Addresses()
	addresses := []any{"grpc", a.GRPC, "http", a.HTTP, "admin", a.Admin}
	if a.Report != "" {
		addresses = append(addresses, "report", a.Report)
	}
	s.logger.Info("serving", append(addresses,
		"store", s.app.StoreKind(), "redis", s.config.Redis.String(), "generation", s.app.Rules().Generation, "version", s.version.Version)...)

	var parts sync.WaitGroup
	all := s.parts(running)
	ended := make(chan error, len(all)) // buffered, so that none blocks
	for _, part := range all {
		parts.Go(func() { ended <- part() })
	}
	s.notify(systemd.Ready)

	fault := s.wait(stop, hangup, ended)
	begin := time.Now() // before any caller can notice the drain
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.drain(ctx)
		cancel()
		parts.Wait()
	}()
	if err := s.awaitEnd(begin, stop, over); err != nil {
		return err
	}
	s.logger.Info("ended")
	return fault
}

// parts returns the functions of a running service, each of which runs until the service
// ends. ctx ends with the service.
func (s *Service) parts(ctx context.Context) []func() error {
	all := []func() error{
		func() error { return s.front.Serve(s.listeners.grpc) },
		func() error { return serveHTTP(s.web, s.listeners.http) },
		func() error { return serveHTTP(s.admin, s.listeners.admin) },
		func() error { s.app.Watch(ctx); return nil },
	}
	all = append(all, s.importedParts(ctx)...)
	if s.listeners.report != nil {
		all = append(all, s.serveReports)
	}
	return all
}

// notify reports a state to systemd, if it has started the process.
func (s *Service) notify(state string) {
	if err := systemd.Notify(s.environ, state); err != nil {
		s.logger.Warn("systemd does not receive the state of the service", "state", state, "error", err)
	}
}

// sameSignal is the time in which a further signal counts as an echo of the first:
// timeout(1) and some supervisors signal a process and then its group.
const sameSignal = 100 * time.Millisecond

var errSecondSignal = errors.New("ended at once by a second signal")

// awaitEnd returns when the drain that began at the given time is over or has timed
// out. The error is errSecondSignal.
func (s *Service) awaitEnd(begin time.Time, stop <-chan os.Signal, over <-chan struct{}) error {
	limit := time.NewTimer(s.config.DrainTimeout + endGrace)
	defer limit.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-limit.C:
			s.logger.Warn("a part of the service did not end in time")
			return nil
		case <-stop:
			if time.Since(begin) >= sameSignal {
				return errSecondSignal
			}
		}
	}
}

// errEnded is the error of a part that ended without one, although the service serves.
var errEnded = errors.New("it returned without an error")

// wait returns when the service must end: nil for a signal, or the error of a part.
func (s *Service) wait(stop, hangup <-chan os.Signal, ended <-chan error) error {
	for {
		select {
		case <-hangup:
			s.app.Reload()
			s.decisions.reopen()
		case received := <-stop:
			s.logger.Info("draining", "signal", received.String(), "wait", s.config.DrainWait.String(), "timeout", s.config.DrainTimeout.String())
			return nil
		case err := <-ended:
			if err == nil {
				err = errEnded
			}
			s.logger.Error("a part of the service ended", "error", err)
			return fmt.Errorf("a part of the service ended: %w", err)
		}
	}
}

// drainMargin is the time before the end of a drain in which no call has its turn.
const drainMargin = 200 * time.Millisecond

// drain announces the end to callers, waits until they have noticed, completes the
// calls in progress and cuts off the rest.
func (s *Service) drain(ctx context.Context) {
	s.draining.Store(true)
	s.traffic.Close()
	s.notify(systemd.Stopping)
	// Answers to calls that wait until the end would come too late.
	s.app.Engine().Drain(time.Now().Add(s.config.DrainTimeout - drainMargin))
	ctx, cancel := context.WithTimeout(ctx, s.config.DrainTimeout)
	defer cancel()
	var doors sync.WaitGroup
	doors.Go(func() {
		if err := s.front.Drain(ctx); err != nil {
			s.logger.Warn("gRPC calls were cut off", "error", err)
		}
	})
	doors.Go(func() {
		delay.Wait(ctx, s.config.DrainWait)
		s.refuseConnections(ctx)
		s.shut(ctx, s.web, "HTTP calls were cut off")
	})
	doors.Wait()
	s.endImported()
	s.endReports() // not earlier: the calls that were completed until now report their ends
	// Last, so that the drain is visible until now. Profiles in progress may be
	// lost.
	if err := s.admin.Close(); err != nil {
		s.logger.Debug("closing the admin address", "error", err)
	}
}

// firstRequest is the time that new connections have to send their first request: a
// round trip, and the pauses of a busy machine.
const firstRequest = 100 * time.Millisecond

// refuseConnections stops accepting HTTP connections, and leaves the open ones time
// for a request: Shutdown would close a connection whose first request it has not
// read yet.
func (s *Service) refuseConnections(ctx context.Context) {
	if err := s.listeners.http.Close(); err != nil {
		s.logger.Debug("closing the HTTP address", "error", err)
	}
	delay.Wait(ctx, firstRequest)
}

// shut ends a server when its requests are answered or ctx is done.
func (s *Service) shut(ctx context.Context, server *http.Server, cutOff string) {
	if err := server.Shutdown(ctx); err != nil {
		s.logger.Warn(cutOff, "error", err)
		_ = server.Close() // closes the connections that Shutdown did not wait for
	}
}

// serveHTTP serves until the server is shut or its listener closed, which is not an
// error.
func serveHTTP(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}
