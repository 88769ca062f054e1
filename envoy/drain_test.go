package envoy_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/envoy"
)

func TestDrainFinishesCallsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := startInMemory(t, envoy.Options{}, func(ctx context.Context) (*authv3.CheckResponse, error) {
			<-release
			return allow(ctx)
		})
		answered, drained := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := f.check(t)
			answered <- err
		}()
		synctest.Wait() // the call is under way
		go func() { drained <- f.Drain(deadline(t)) }()
		synctest.Wait() // and nothing else can go on
		select {
		case err := <-drained:
			t.Errorf("Drain returned %v while a call was under way", err)
			drained <- nil
		default:
		}
		close(release)
		if err := <-answered; err != nil {
			t.Errorf("the call under way failed: %v", err)
		}
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
}

func TestDrainAbortsCallsAtItsDeadline(t *testing.T) {
	entered := make(chan struct{})
	f := start(t, envoy.Options{}, func(ctx context.Context) (*authv3.CheckResponse, error) {
		close(entered)
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	})
	answered := make(chan error, 1)
	go func() {
		_, err := f.check(t)
		answered <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := f.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v; want an error about aborted calls", err)
	}
	if err := <-answered; err == nil {
		t.Error("the call that hung was answered; want it cut off")
	}
}

// The fake clock advances when all goroutines are blocked, however busy the machine is.
func TestDrainReportsNotServingBeforeConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startInMemory(t, envoy.Options{DrainWait: 300 * time.Millisecond}, allow)
		client := healthv1.NewHealthClient(f.conn)
		watch, err := client.Watch(deadline(t), &healthv1.HealthCheckRequest{Service: serviceName})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.Status != healthv1.HealthCheckResponse_SERVING {
			t.Fatalf("before the drain: %v, %v; want SERVING", got, err)
		}
		drained := make(chan error, 1)
		go func() { drained <- f.Drain(deadline(t)) }()
		if got, err := watch.Recv(); err != nil || got.Status != healthv1.HealthCheckResponse_NOT_SERVING {
			t.Fatalf("in the drain: %v, %v; want NOT_SERVING", got, err)
		}
		if _, err := f.check(t); err != nil {
			t.Errorf("a call during the wait failed: %v", err)
		}
		select {
		case err := <-drained:
			t.Errorf("Drain returned %v before its wait was over", err)
		default:
		}
		// The watch does not end by itself: the drain must not wait for it.
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v; want the open watch not to hold it up", err)
		}
		if _, err := watch.Recv(); err == nil {
			t.Error("the watch is still open after the drain")
		}
	})
}

func TestDrainWithoutCallersAndTwice(t *testing.T) {
	f := start(t, envoy.Options{}, allow)
	for range 2 {
		if err := f.Drain(deadline(t)); err != nil {
			t.Errorf("Drain: %v", err)
		}
	}
}

func TestDrainEndsWithAConnectionBeforeItsHandshake(t *testing.T) {
	f := start(t, envoy.Options{}, allow)
	silent, err := net.Dial("tcp", f.conn.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := f.check(t); err != nil { // by now the silent one is accepted
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 7*time.Second)
	defer cancel()
	if err := f.Drain(ctx); err != nil {
		t.Errorf("Drain: %v; want no wait for a silent connection", err)
	}
}
