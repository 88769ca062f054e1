package rig

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// Fixture is the stage of one test. All its programs stop when the test ends.
type Fixture struct {
	*testing.T
	Stage *e2e.Stage
	Dir   string
	// Authorities contains the authorities of the fixture's certificates, by name.
	Authorities map[string]Authority
}

// NewFixture returns the fixture of a test, whose programs end with it.
func NewFixture(t *testing.T) *Fixture {
	t.Helper()
	dir := t.TempDir()
	s, err := e2e.NewStage(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.BePatient(true)
	s.TrustUsers(true)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, p := range s.Programs() {
				t.Logf("--- %s\n%s", p.Name, Tail(p.Log(), 4000))
			}
		}
	})
	return &Fixture{T: t, Stage: s, Dir: dir}
}

// File writes a file in the test's folder and returns its path.
func (h *Fixture) File(name, text string) string {
	h.Helper()
	path := filepath.Join(h.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
	return path
}

// SampleRules writes a rule file of the module into the test's folder. Each pair is a
// text that occurs in it once, and its replacement.
func (h *Fixture) SampleRules(name string, pairs ...[2]string) string {
	h.Helper()
	text := string(Must(os.ReadFile(h.Stage.Path(name)))(h.T))
	for _, p := range pairs {
		if n := strings.Count(text, p[0]); n != 1 {
			h.Fatalf("%s: %q occurs %d times; want once", name, p[0], n)
		}
		text = strings.Replace(text, p[0], p[1], 1)
	}
	return h.File(filepath.Base(name), text)
}

// Redis starts a Redis.
func (h *Fixture) Redis() *e2e.Redis {
	h.Helper()
	return Must(h.Stage.Redis())(h.T)
}

// App starts an application.
func (h *Fixture) App() *e2e.App {
	h.Helper()
	return Must(h.Stage.App())(h.T)
}

// RaceSettings are for instances with the race detector on a busy machine: a large
// Redis budget, so that no call is rescued, and no wait when an instance stops.
var RaceSettings = []string{"KOALAGATE_REDIS_BUDGET=5s", "KOALAGATE_DRAIN_WAIT=0s"}

// Koalagate starts an instance with the race detector.
func (h *Fixture) Koalagate(args ...string) *e2e.Koalagate {
	h.Helper()
	return h.KoalagateWith(nil, args...)
}

// KoalagateWith starts an instance with additional settings.
func (h *Fixture) KoalagateWith(env []string, args ...string) *e2e.Koalagate {
	h.Helper()
	return Must(h.Stage.Koalagate(Binary, slices.Concat(RaceSettings, env), args...))(h.T)
}

// Pair starts two instances with one Redis.
func (h *Fixture) Pair(rules string) []*e2e.Koalagate {
	h.Helper()
	return h.PairWith(Ways[0], rules)
}

// Way is the optimization settings of a pair of instances.
type Way struct {
	Name     string
	Settings [2][]string
}

// OptimizationsOff switches all optimizations off.
var OptimizationsOff = []string{
	"KOALAGATE_REDIS_BATCHING=off", "KOALAGATE_REDIS_REFUSALS=0",
	"KOALAGATE_GRPC_STREAM_WORKERS=0", "KOALAGATE_GC_HEADROOM=0",
}

// Ways are the settings for tests of exactness. The answers are the same for all of
// them, including the mixed pair, as during a rolling change of settings.
var Ways = []Way{
	{"all on", [2][]string{}},
	{"all off", [2][]string{OptimizationsOff, OptimizationsOff}},
	{"one on and one off", [2][]string{nil, OptimizationsOff}},
}

// PairWith starts two instances with one Redis and the given settings.
func (h *Fixture) PairWith(w Way, rules string) []*e2e.Koalagate {
	h.Helper()
	redis := h.Redis().URL()
	var list []*e2e.Koalagate
	for _, env := range w.Settings {
		list = append(list, h.KoalagateWith(env, "--rules", rules, "--redis", redis))
	}
	return list
}

// Envoy starts Envoy with its sample in front of app.
func (h *Fixture) Envoy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.Envoy(app, instances...))(h.T)
}

// Nginx starts nginx with its sample of auth_request in front of app.
func (h *Fixture) Nginx(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.Nginx(app, instances...))(h.T)
}

// Must returns a function that returns v, or fails the test if err is not nil.
func Must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Reply is the answer that a client got.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Client does not follow redirects, and keeps enough connections for concurrent
// requests.
var Client = &http.Client{
	Timeout:       time.Minute,
	Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Send sends a request with headers of the form `Name: value`.
func Send(t *testing.T, method, url string, headers ...string) Reply {
	t.Helper()
	r, err := TrySend(method, url, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TrySend is Send for any goroutine: it returns the error.
func TrySend(method, url string, headers ...string) (Reply, error) {
	req, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		return Reply{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := Client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, string(body)}, err
}

// WantStatus sends a request, and fails the test at once if the status differs.
func WantStatus(t *testing.T, want int, method, url string, headers ...string) Reply {
	t.Helper()
	r := Send(t, method, url, headers...)
	if r.Status != want {
		t.Fatalf("%s %s %q: status %d, want %d; headers %v, body %q", method, url, headers, r.Status, want, r.Header, r.Body)
	}
	return r
}

// OverOneConnection sends the same POST request several times over one connection.
// The client of net/http might open another connection on a busy machine.
func OverOneConnection(t *testing.T, address, path string, times int) (replies []Reply) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("x", 1000)
	for answers := bufio.NewReader(conn); len(replies) < times; {
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", path, address, len(body), body); err != nil {
			t.Fatalf("request %d over one connection: %v", len(replies)+1, err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("answer %d over one connection: %v", len(replies)+1, err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Close {
			t.Fatalf("answer %d closes its connection, %v; want it kept", len(replies)+1, err)
		}
		replies = append(replies, Reply{resp.StatusCode, resp.Header, string(text)})
	}
	return replies
}

// Concurrently runs do in n goroutines at once.
func Concurrently(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			do(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// WaitUntil waits until done returns true, for at most half a minute.
func WaitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !BecomesTrue(done) {
		t.Fatalf("not true after %v: %s", longestWait, what)
	}
}

// longestWait is how long BecomesTrue waits.
const longestWait = 30 * time.Second

// BecomesTrue reports whether done returns true within longestWait. Unlike WaitUntil it
// may be called from any goroutine.
func BecomesTrue(done func() bool) bool {
	for deadline := time.Now().Add(longestWait); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// AvoidMidnight waits for the next day if this one ends within a minute, in the time
// zone of the rules: daily counters would otherwise restart during a test.
func AvoidMidnight(t *testing.T) {
	t.Helper()
	now := time.Now().UTC() // the default zone of the service
	midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
	if left := midnight.Sub(now); left < time.Minute {
		t.Logf("waiting %v for midnight", left)
		time.Sleep(left)
	}
}

// Tail returns the end of a text that is longer than length.
func Tail(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return "…" + text[len(text)-length:]
}
