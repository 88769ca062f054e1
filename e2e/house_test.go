package e2e_test

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
	"github.com/koalagate/koalagate/rules"
)

// house is the stage of one test: what it starts is ended with it.
type house struct {
	*testing.T
	stage *e2e.Stage
	dir   string
	// authorities are those of the certificates that the house has made.
	authorities map[string]authority
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	s, err := e2e.NewStage(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.BePatient(true)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, p := range s.Programs() {
				t.Logf("--- %s\n%s", p.Name, tail(p.Log(), 4000))
			}
		}
	})
	return &house{T: t, stage: s, dir: dir}
}

// file writes a file of the test's own and returns its path.
func (h *house) file(name, text string) string {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
	return path
}

func (h *house) redis() *e2e.Redis {
	h.Helper()
	return must(h.stage.Redis())(h.T)
}

func (h *house) app() *e2e.App {
	h.Helper()
	return must(h.stage.App())(h.T)
}

// unhurried are the settings of instances that find data races on a busy
// machine: Redis gets longer, so that no call is rescued, and nothing waits
// for an instance that goes.
var unhurried = []string{"KOALAGATE_REDIS_BUDGET=5s", "KOALAGATE_DRAIN_WAIT=0s"}

func (h *house) koalagate(args ...string) *e2e.Koalagate {
	h.Helper()
	return h.koalagateWith(nil, args...)
}

// koalagateWith starts an instance with settings of its own.
func (h *house) koalagateWith(env []string, args ...string) *e2e.Koalagate {
	h.Helper()
	return must(h.stage.Koalagate(binary, slices.Concat(unhurried, env), args...))(h.T)
}

// pair is two instances on one Redis.
func (h *house) pair(rules string) []*e2e.Koalagate {
	h.Helper()
	return h.pairWith(ways[0], rules)
}

// way is what the instances of a pair have on of what makes them quick.
type way struct {
	name     string
	settings [2][]string
}

// slow has all of that off.
var slow = []string{
	"KOALAGATE_REDIS_BATCHING=off", "KOALAGATE_REDIS_COUNT_PATH=false", "KOALAGATE_REDIS_REFUSALS=0",
	"KOALAGATE_GRPC_STREAM_WORKERS=0", "KOALAGATE_GC_HEADROOM=0",
}

// ways are those that the stories of exactness are told in. What is answered is
// the same in all of them, and while a change rolls from one instance to the next.
var ways = []way{
	{"all on", [2][]string{}},
	{"all off", [2][]string{slow, slow}},
	{"one on and one off", [2][]string{nil, slow}},
}

// pairWith is two instances that go a way on one Redis.
func (h *house) pairWith(w way, rules string) []*e2e.Koalagate {
	h.Helper()
	redis := h.redis().URL()
	var list []*e2e.Koalagate
	for _, env := range w.settings {
		list = append(list, h.koalagateWith(env, "--rules", rules, "--redis", redis))
	}
	return list
}

func (h *house) envoy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.Envoy(app, instances...))(h.T)
}

func (h *house) nginx(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.Nginx(app, instances...))(h.T)
}

// must takes the result of a function that may fail, and ends the test if it
// has.
func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// reply is what a client got.
type reply struct {
	status int
	header http.Header
	body   string
}

// client follows no redirect, and keeps enough connections for a crowd.
var client = &http.Client{
	Timeout:       20 * time.Second,
	Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask sends a request with headers of the form `Name: value`.
func ask(t *testing.T, method, url string, headers ...string) reply {
	t.Helper()
	r, err := askFor(method, url, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func askFor(method, url string, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		return reply{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body)}, err
}

// wantStatus asks, and fails the test at once if the status is another one.
func wantStatus(t *testing.T, want int, method, url string, headers ...string) reply {
	t.Helper()
	r := ask(t, method, url, headers...)
	if r.status != want {
		t.Fatalf("%s %s %q: status %d, want %d; headers %v, body %q", method, url, headers, r.status, want, r.header, r.body)
	}
	return r
}

// overOneConnection posts the same to a path so many times over one connection,
// as its server lets it: a client of the library would open another where it is
// not sure on a busy machine.
func overOneConnection(t *testing.T, address, path string, times int) (replies []reply) {
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
			t.Fatalf("answer %d ends its connection, %v; want it kept", len(replies)+1, err)
		}
		replies = append(replies, reply{resp.StatusCode, resp.Header, string(text)})
	}
	return replies
}

// together runs do n times at once.
func together(n int, do func(i int)) {
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

// until asks again and again until it is so, for half a minute at most.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	const most = 30 * time.Second
	for deadline := time.Now().Add(most); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has not happened after %v: %s", most, what)
		}
	}
}

// wholeDay waits for the next day where this one is over in a minute, in the time
// zone of the rules: what counts by days would begin anew in the middle of a story.
func wholeDay(t *testing.T) {
	t.Helper()
	zone := must(time.LoadLocation(rules.DefaultTimezone))(t)
	now := time.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, zone)
	if left := midnight.Sub(now); left < time.Minute {
		t.Logf("waiting %v for midnight in %v", left, zone)
		time.Sleep(left)
	}
}

func tail(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return "…" + text[len(text)-length:]
}
