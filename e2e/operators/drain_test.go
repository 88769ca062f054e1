package operators_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// After SIGTERM the process exits within drain_timeout, and little more, whatever
// its callers keep open: idle connections, partial requests, endless streams, and
// gateways.
func TestSIGTERMEndsProcessDespiteOpenConnections(t *testing.T) {
	h := rig.NewFixture(t)
	k := rig.Must(h.Stage.Koalagate(rig.Binary, []string{"KOALAGATE_DRAIN_TIMEOUT=3s"}, "--rules", h.File("rules.conf", rig.LimitedTo(1)), "--redis", h.Redis().URL()))(t)
	app := h.App()
	h.Envoy(app, k)
	nginx := h.Nginx(app, k)
	rig.WantStatus(t, 200, "GET", nginx.URL+"/") // nginx now has an idle connection

	for _, address := range []string{k.GRPC, k.HTTP, k.Admin} {
		hold(t, address, "")
		hold(t, address, "GET /rule/browse HTTP/1.1\r\nHost: x\r\nX-")
		hold(t, address, "POST /rule/browse HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\na=")
		hold(t, address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	}
	watchHealth(t, k.GRPC)

	begin := time.Now()
	if err := k.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !k.Ended(20 * time.Second) { // a busy machine may stall for seconds; without the timeout it would not end
		t.Fatalf("the process still runs %v after SIGTERM", time.Since(begin))
	}
	if k.ExitCode() != 0 {
		t.Errorf("exit status %d, want 0", k.ExitCode())
	}
}

// hold opens a connection, sends text, and keeps it open until the test ends.
func hold(t *testing.T, address, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprint(conn, text); err != nil {
		t.Fatal(err)
	}
}

// watchHealth opens a stream that the server does not end by itself.
func watchHealth(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	watch, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
}

// Stopping an instance loses no request: Envoy detects that it drains, and calls
// the other one.
func TestDrainingLosesNoRequest(t *testing.T) {
	h := rig.NewFixture(t)
	rules := h.File("rules.conf", rig.LimitedTo(1_000_000))
	redis := h.Redis().URL()
	going := rig.Must(h.Stage.Koalagate(rig.Binary, rig.RaceSettings[:1], "--rules", rules, "--redis", redis))(t)
	staying := h.Koalagate("--rules", rules, "--redis", redis)
	envoy := h.Envoy(h.App(), going, staying)

	done := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if r, err := rig.TrySend("POST", envoy.URL+"/api/comments", "X-User-Id: ann"); err != nil || r.Status != http.StatusOK {
					t.Errorf("while an instance drains: %d, %v; want 200", r.Status, err)
					return
				}
			}
		})
	}
	if err := going.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if !going.Ended(20 * time.Second) {
		t.Error("the process still runs 20 s after SIGTERM")
	}
	close(done)
	callers.Wait()
}
