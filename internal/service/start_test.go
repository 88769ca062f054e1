package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// oneRule is a rule file with a limit of 1000 hits per user and day.
const oneRule = `[rules]
rule : [leak] [uid=+] [time=86400; count=1000;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// logText is a log that a test may read while the service writes to it.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// load returns the settings of a service on free ports with one rule, and of flags.
func load(t *testing.T, flags map[string]any) *config.Loaded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(path, []byte(oneRule), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{
		"rules": []string{path}, "log_format": "text", "drain_wait": "0s",
		"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0",
	}
	for key, value := range flags {
		all[key] = value
	}
	loaded, err := config.Load(config.Input{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// open opens a service, which the test closes at its end.
func open(t *testing.T, flags map[string]any) (*Service, *logText) {
	t.Helper()
	text := new(logText)
	s, err := Open(t.Context(), Options{Config: load(t, flags), Log: text, Environ: []string{"GOGC=100"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, text
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// A service answers at its addresses until a signal, and then ends without an error.
func TestServiceServesUntilASignal(t *testing.T) {
	s, text := open(t, nil)
	stop, hangup := make(chan os.Signal, 1), make(chan os.Signal, 1)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stop, hangup) }()
	a := s.Addresses()
	if status, body := get(t, a.Admin, "/readyz"); status != http.StatusOK || !strings.Contains(body, `"rules": 1`) || !strings.Contains(body, `"store": "memory"`) {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := get(t, a.HTTP, "/rule/browse?uid=ann"); status != http.StatusOK {
		t.Errorf("/rule/browse: %d %s", status, body)
	}
	hangup <- syscall.SIGHUP
	stop <- syscall.SIGTERM
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("still running after a signal; the log:\n%s", text)
	}
	for _, want := range []string{"msg=serving grpc=" + a.GRPC, "msg=draining signal=terminated", "msg=ended"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, text)
		}
	}
	if _, err := http.Get("http://" + a.HTTP); err == nil {
		t.Error("the HTTP address still accepts connections")
	}
}

func TestOpenReturnsErrors(t *testing.T) {
	taken, _ := open(t, nil)
	bad := filepath.Join(t.TempDir(), "bad.conf")
	if err := os.WriteFile(bad, []byte("[rules]\nrule : [cuont]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		flags map[string]any
		want  string
	}{
		{"rules with an error", map[string]any{"rules": []string{bad}}, "the rules have errors: " + bad + ":2:"},
		{"a missing rule file", map[string]any{"rules": []string{"/nonexistent/rules.conf"}}, "cannot read the rules: "},
		{"a decision log in a missing folder", map[string]any{"decision_log": "/nonexistent/log"}, "the decision log: "},
		{"a missing certificate", map[string]any{"grpc_tls_cert": "/nonexistent/crt", "grpc_tls_key": "/nonexistent/key"}, "the TLS of grpc_addr: "},
		{"a missing certificate of HTTP", map[string]any{"http_tls_cert": "/nonexistent/crt", "http_tls_key": "/nonexistent/key"}, "the TLS of http_addr: "},
		{"a missing certificate of the admin address", map[string]any{"admin_tls_cert": "/nonexistent/crt", "admin_tls_key": "/nonexistent/key"}, "the TLS of admin_addr: "},
		{"an address in use", map[string]any{"http_addr": taken.Addresses().HTTP}, "http_addr: "},
	} {
		s, err := Open(t.Context(), Options{Config: load(t, c.flags), Log: io.Discard, Environ: []string{"GOGC=100"}})
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", c.name)
		} else if !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

// A database that Redis does not have ends the start: it will never hold counters.
func TestOpenRefusesAMissingDatabase(t *testing.T) {
	server := storetest.StartServer(t)
	loaded := load(t, map[string]any{"redis": server.URL() + "?db=99", "redis_budget": "10s"})
	s, err := Open(t.Context(), Options{Config: loaded, Log: io.Discard, Environ: []string{"GOGC=100"}})
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if !strings.HasPrefix(err.Error(), "redis (flag --redis): this Redis has no database of that number") {
		t.Error(err)
	}
}

// Garbage in a key of a counter restarts the counter; the log and a metric report
// it.
func TestDamagedKeysAreLogged(t *testing.T) {
	server := storetest.StartServer(t)
	s, text := open(t, map[string]any{"redis": server.URL(), "redis_budget": "10s"})
	take := func() int64 {
		d, err := s.app.Engine().Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "ann"})}}})
		if err != nil || d.Degraded || !d.Allowed() {
			t.Fatalf("%+v, %v", d, err)
		}
		return d.Answers[0].Quota.Remaining
	}
	take()
	client := server.Client()
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := client.Set(t.Context(), key, "garbage", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if left := take(); left != 999 {
		t.Errorf("%d are left, want 999: garbage is no counter", left)
	}
	if want := `msg="a key in Redis contains no valid counters; its counters restart" key=koala:2:{%01%03ann}`; !strings.Contains(text.String(), want) {
		t.Errorf("the log has no %s:\n%s", want, text)
	}
}

// BenchmarkDamage measures the cost of reporting a damaged key, where all concurrent
// calls meet one.
func BenchmarkDamage(b *testing.B) {
	m, w := metrics.New(metrics.Build{}), &loglimit.Warner{Logger: slog.New(slog.DiscardHandler)}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Damaged()
			w.Warn("a key in Redis contains no valid counters; its counters restart", "key", "koala:2:{%01%03ann}")
		}
	})
}
