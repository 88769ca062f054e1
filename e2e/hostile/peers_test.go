package hostile_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Attackers that reach an instance directly flood it in every way at once. Gateways
// that let requests pass if a check fails keep the rules and the limit meanwhile, and
// the instance stays below 300 MB.
func TestHostilePeersKeepNoLimitOff(t *testing.T) {
	h := rig.NewFixture(t)
	const limit = 50
	k := rig.Must(h.Stage.Koalagate(h.Released(), append(rig.RaceSettings, "KOALAGATE_HTTP_HEADER_TIMEOUT=1s"), "--redis", h.Redis().URL(), "--rules", h.File("rules.conf", fmt.Sprintf(`
[params]
uid : header X-User-Id
[rules]
rule : [direct] [host=blocked.example] [] [result=2; return=101]
rule : [count]  [uid=+] [time=3600; count=%d] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`, limit))))(t)
	app := h.App()
	gateways := []*e2e.Gateway{h.Nginx(app, k), h.Envoy(app, k)}

	var attackers sync.WaitGroup
	for _, a := range e2e.Attacks(k) {
		for range a.Peers {
			attackers.Go(func() {
				for range a.Rounds {
					if err := a.Attempt(t.Context()); err != nil {
						t.Errorf("%s: %v", a.Name, err)
					}
				}
			})
		}
	}
	var allowed sync.Map
	rig.Concurrently(8, func(client int) {
		for i := range 40 {
			g := gateways[i%2]
			if status, err := rig.SendRaw(g, "GET /a HTTP/1.1\r\nHost: blocked.example"); err != nil || status != http.StatusForbidden {
				t.Errorf("a blocked request: %d, %v; want 403", status, err)
			}
			switch status, err := rig.SendRaw(g, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-User-Id: ann"); {
			case err != nil || status != http.StatusOK && status != http.StatusTooManyRequests:
				t.Errorf("a request of ann: %d, %v; want 200 or 429", status, err)
			case status == http.StatusOK:
				allowed.Store([2]int{client, i}, true)
			}
		}
	})
	attackers.Wait()
	passed := 0
	allowed.Range(func(any, any) bool { passed++; return true })
	if passed != limit || app.Reached() != limit {
		t.Errorf("ann passed %d times, and %d requests reached the application; want the limit of %d", passed, app.Reached(), limit)
	}
	if peak := rig.PeakMemory(t, k); peak > 300<<20 {
		t.Errorf("the instance used %d MB; want at most 300", peak>>20)
	}
	if r := rig.Must(k.Readyz())(t); !r.Ready || r.Store != "redis" {
		t.Errorf("/readyz is %+v; want ready, with Redis", r)
	}
	metrics := rig.WantStatus(t, http.StatusOK, "GET", "http://"+k.Admin+"/metrics").Body
	for _, bound := range []string{"resets", "settings", "header_size", "http_receive", "http_header_size"} {
		if !regexp.MustCompile(`koalagate_bounds_total\{bound="` + bound + `"\} [1-9]`).MatchString(metrics) {
			t.Errorf("no attack exceeded %s", bound)
		}
	}
}

// Idle connections leave a process with few descriptors enough for Redis, reloads, health
// checks and new callers.
func TestHostileIdleConnectionsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	limited := h.File("limited.sh", "#!/bin/sh\nulimit -n 64\nexec '"+rig.Binary+"' \"$@\"\n")
	if err := os.Chmod(limited, 0o700); err != nil {
		t.Fatal(err)
	}
	file := h.File("rules.conf", rig.LimitedTo(1000))
	k := rig.Must(h.Stage.Koalagate(limited, rig.RaceSettings, "--rules", file, "--redis", h.Redis().URL()))(t)
	for range 200 {
		for _, address := range []string{k.GRPC, k.HTTP} {
			if conn, err := net.DialTimeout("tcp", address, 10*time.Second); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		}
	}
	if err := os.WriteFile(file, []byte(rig.LimitedTo(2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	rig.WaitUntil(t, "the changed rules are active", func() bool {
		r, err := k.Readyz()
		return err == nil && r.Ready && r.Generation > 1 && r.Store == "redis"
	})
	conn := rig.Must(grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	if status := rig.CheckStatus(t, authv3.NewAuthorizationClient(conn), rig.HTTPCheck("/", nil)); status != http.StatusOK {
		t.Errorf("a check over gRPC: %d; want 200", status)
	}
	if status := rig.SendCheck(t, k.HTTP, "forward-auth", "/", nil); status != http.StatusOK {
		t.Errorf("a check over HTTP: %d; want 200", status)
	}
	if !strings.Contains(k.Log(), "ulimit -n") {
		t.Error("the log does not name the remedy")
	}
	if strings.Contains(k.Log(), "unreachable") {
		t.Errorf("Redis was left:\n%s", k.Log())
	}
}
