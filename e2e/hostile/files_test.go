package hostile_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// lowOnFiles starts an instance that may open 64 files, and peers that hold all the
// connections that it admits at its addresses.
func lowOnFiles(h *rig.Fixture, env []string, args ...string) *e2e.Koalagate {
	h.Helper()
	limited := h.File("limited.sh", "#!/bin/sh\nulimit -n 64\nexec '"+rig.Binary+"' \"$@\"\n")
	if err := os.Chmod(limited, 0o700); err != nil {
		h.Fatal(err)
	}
	k := rig.Must(h.Stage.Koalagate(limited, append(env, rig.RaceSettings...), args...))(h.T)
	var peers sync.WaitGroup
	for _, address := range []string{k.GRPC, k.HTTP, k.Admin} {
		for range 12 {
			peers.Go(func() { occupy(h.Context(), address) })
		}
	}
	h.Cleanup(peers.Wait) // the context of a test ends before
	rig.WaitUntil(h.T, "a bound is exceeded", func() bool { return strings.Contains(k.Log(), "a peer exceeded a bound") })
	return k
}

// occupy keeps a connection open, and opens another one when the service closes it.
func occupy(ctx context.Context, address string) {
	var d net.Dialer
	for ctx.Err() == nil {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			ended := context.AfterFunc(ctx, func() { conn.Close() })
			_, _ = conn.Read(make([]byte, 1)) // until it is closed
			ended()
			conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// eventuallyAllowed sends checks until one is allowed: peers that reconnect may take the
// connection of a caller.
func eventuallyAllowed(t *testing.T, k *e2e.Koalagate, user string) {
	t.Helper()
	rig.WaitUntil(t, "a check is allowed", func() bool {
		r, err := rig.TrySend("GET", "http://"+k.HTTP+"/v1/auth-request",
			"X-Original-Method: GET", "X-Original-URI: /", "X-Real-IP: 203.0.113.9", "X-User-Id: "+user)
		return err == nil && r.Status == http.StatusOK
	})
}

// fileRules count every user, and use a table.
const fileRules = `
[tables]
plans : plans.csv
[params]
uid : header X-User-Id
[rules]
rule : [count] [uid=+] [time=3600; count=table plans.rate by uid else 1000000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// Redis restarts while peers hold all connections: the instance connects again.
func TestHostileConnectionsLeaveFilesForRedis(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.File("plans.csv", "uid,rate\n")
	redis := h.Redis()
	k := lowOnFiles(h, nil, "--redis", redis.URL(), "--rules", h.File("rules.conf", fileRules))
	for range 3 {
		if err := redis.Kill(); err != nil {
			t.Fatal(err)
		}
		rig.WaitUntil(t, "the in-process store decides", func() bool {
			eventuallyAllowed(t, k, "ann")
			r, err := k.Readyz()
			return err == nil && r.StoreError != ""
		})
		redis = rig.Must(h.Stage.RestartRedis(redis))(t)
		rig.WaitUntil(t, "Redis is in use again", func() bool {
			r, err := k.Readyz()
			return err == nil && r.Ready && r.Store == "redis" && r.StoreError == ""
		})
	}
	if strings.Contains(k.Log(), "too many open files") {
		t.Errorf("files ran out:\n%s", rig.Tail(k.Log(), 2000))
	}
}

// A folder of rule files, lists and a table is reloaded while peers hold all connections,
// although it has more files than the instance may open.
func TestHostileConnectionsLeaveFilesForRules(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	if err := os.MkdirAll(filepath.Join(h.Dir, "rules", "lists"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		h.File(fmt.Sprintf("rules/a%d.conf", i), fmt.Sprintf("[dicts]\nlist%d : lists/any%d.dat\n", i, i))
		h.File(fmt.Sprintf("rules/lists/any%d.dat", i), "ann\n")
	}
	table := h.File("rules/plans.csv", "uid,rate\nann,1000000\n")
	folder := filepath.Dir(h.File("rules/z.conf", fileRules))
	k := lowOnFiles(h, nil, "--redis", h.Redis().URL(), "--rules", folder)
	for generation := 2; generation < 5; generation++ {
		if err := os.WriteFile(table, fmt.Appendf(nil, "uid,rate\nann,%d\n", generation), 0o600); err != nil {
			t.Fatal(err)
		}
		rig.WaitUntil(t, "the changed table is active", func() bool {
			r, err := k.Readyz()
			return err == nil && r.Ready && r.Generation == generation
		})
	}
	if strings.Contains(k.Log(), "too many open files") {
		t.Errorf("files ran out:\n%s", rig.Tail(k.Log(), 2000))
	}
}

// The decision log begins new files while peers hold all connections, and loses no line.
func TestHostileConnectionsLeaveFilesForLogs(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.File("plans.csv", "uid,rate\n")
	file := filepath.Join(h.Dir, "decisions.log")
	k := lowOnFiles(h, []string{"KOALAGATE_DECISION_LOG=" + file, "KOALAGATE_DECISION_LOG_MAX_SIZE=1048576", "KOALAGATE_DECISION_LOG_PARAMS=all", "KOALAGATE_MAX_VALUE=65536"},
		"--rules", h.File("rules.conf", fileRules))
	const calls = 120
	long := strings.Repeat("x", 30_000) // 35 lines fill a file
	for i := range calls {
		eventuallyAllowed(t, k, fmt.Sprintf("user-%d-%s", i, long))
	}
	rig.WaitUntil(t, "every decision is in the log", func() bool {
		files := rig.Must(filepath.Glob(filepath.Join(h.Dir, "decisions*")))(t)
		var lines strings.Builder
		for _, name := range files {
			lines.Write(rig.Must(os.ReadFile(name))(t))
		}
		for i := range calls {
			if !strings.Contains(lines.String(), fmt.Sprintf("user-%d-x", i)) {
				return false
			}
		}
		return len(files) > 3
	})
	if strings.Contains(k.Log(), "too many open files") {
		t.Errorf("files ran out:\n%s", rig.Tail(k.Log(), 2000))
	}
}

// Certificates are read while peers hold connections whose handshakes they have not begun.
func TestHostileConnectionsLeaveFilesForCertificates(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.File("plans.csv", "uid,rate\n")
	ca := h.Authority("ca")
	cert, key := h.Sign(ca, "koalagate")
	k := lowOnFiles(h, []string{"KOALAGATE_GRPC_TLS_CERT=" + cert, "KOALAGATE_GRPC_TLS_KEY=" + key}, "--rules", h.File("rules.conf", fileRules))
	config := rig.Trusting(t, ca)
	config.ServerName, config.NextProtos = "koalagate", []string{"h2"}
	serial := func() string {
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", k.GRPC)
		if err != nil {
			return ""
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := ""
	rig.WaitUntil(t, "a handshake succeeds", func() bool { before = serial(); return before != "" })
	h.Sign(ca, "koalagate") // replaces both files
	rig.WaitUntil(t, "the new certificate is in use", func() bool { now := serial(); return now != "" && now != before })
	if strings.Contains(k.Log(), "too many open files") {
		t.Errorf("files ran out:\n%s", rig.Tail(k.Log(), 2000))
	}
}
