package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/internal/access"
)

// patience is how long a story waits for an expected event.
const patience = time.Minute

// server is the `koalagate serve` of a story.
type server struct {
	process  *os.Process
	done     chan struct{} // closed when the process has ended
	code     int
	log      *journal
	stderr   io.Closer // the reading end of its log
	signaled time.Time // the last time it was sent a signal
	watched  time.Time // when the stopwatch was started
}

type serverKey struct{}

func serverOf(ts *testscript.TestScript) *server { return ts.Value(serverKey{}).(*server) }

// journal collects the log of a process.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// wait polls until done reports true.
func wait(ts *testscript.TestScript, what string, done func() bool) {
	late := time.After(patience)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-late:
			ts.Fatalf("%s did not happen within %s; the log:\n%s", what, patience, serverOf(ts).log)
		}
	}
}

// start runs `koalagate serve` with the arguments, on free ports by default, and
// waits until it serves. It sets $GRPC, $HTTP and $ADMIN to its addresses, and $TOKEN to the
// token for changes that it made, "" for none.
func start(ts *testscript.TestScript, _ bool, args []string) {
	s := serverOf(ts)
	args = append([]string{"serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}, args...)
	path, err := lookPath(ts.Getenv("PATH"), "koalagate")
	ts.Check(err)
	s.log = new(journal)
	c := exec.Command(path, args...)
	c.Dir = ts.MkAbs(".")
	stderr, err := c.StderrPipe()
	ts.Check(err)
	s.stderr = stderr
	c.Env = []string{"PATH=" + ts.Getenv("PATH"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	ts.Check(c.Start())
	s.process, s.done = c.Process, make(chan struct{})
	go func() {
		defer close(s.done)
		_, _ = io.Copy(s.log, stderr) // ends with the process, or with deafen
		// The exit code has all information of the error.
		_ = c.Wait()
		s.code = c.ProcessState.ExitCode()
	}()
	process, done := s.process, s.done // a story may start another one
	ts.Defer(func() {
		_ = process.Kill() // it may have ended already
		<-done
	})
	var addresses struct{ GRPC, HTTP, Admin string }
	wait(ts, "serving", func() bool {
		select {
		case <-s.done:
			ts.Fatalf("koalagate ended with %d:\n%s", s.code, s.log)
		default:
		}
		line := regexp.MustCompile(`(?m)^.*"msg":"serving".*$`).FindString(s.log.String())
		return line != "" && json.Unmarshal([]byte(line), &addresses) == nil
	})
	ts.Setenv("GRPC", addresses.GRPC)
	ts.Setenv("HTTP", addresses.HTTP)
	ts.Setenv("ADMIN", addresses.Admin)
	token, _ := access.Find(access.Dirs(c.Env, ""), addresses.Admin)
	ts.Setenv("TOKEN", token)
}

// lookPath finds a program in the PATH of a story.
func lookPath(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if _, err := os.Stat(full); err == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s", name, path)
}

// logged waits until the log of the server matches a pattern; `! logged` fails if
// it matches now.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile(args[0])
	if neg {
		if found := want.FindString(serverOf(ts).log.String()); found != "" {
			ts.Fatalf("the log has %q", found)
		}
		return
	}
	wait(ts, "a line with "+args[0]+" in the log", func() bool { return want.MatchString(serverOf(ts).log.String()) })
}

// get requests a URL with headers as `Name: value` and prints status and body.
func get(ts *testscript.TestScript, neg bool, args []string) {
	text, err := call(http.MethodGet, args[0], "", args[1:]...)
	if neg != (err != nil) {
		ts.Fatalf("calling %s: %q, %v", args[0], text, err)
	}
	fmt.Fprint(ts.Stdout(), text)
}

// post sends a body to a URL; it prints as get does.
func post(ts *testscript.TestScript, _ bool, args []string) {
	text, err := call(http.MethodPost, args[0], args[1], args[2:]...)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), text)
}

// until requests a URL until status and body match a pattern.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	last := ""
	wait(ts, args[0]+" from "+args[1], func() bool {
		last, _ = call(http.MethodGet, args[1], "", args[2:]...) // a failed request does not match
		return want.MatchString(last)
	})
	fmt.Fprint(ts.Stdout(), last)
}

// appears waits until the text of a file matches: `appears PATTERN FILE`.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	wait(ts, args[0]+" in "+args[1], func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		return err == nil && want.Match(text)
	})
}

func call(method, url, sent string, headers ...string) (string, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(sent))
	if err != nil {
		return "", err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return fmt.Sprintf("%d\n%s", reply.StatusCode, body), err
}

// put replaces a file. `put in-place FROM TO` overwrites it in one write, with a
// text that is not shorter; `put rename FROM TO` renames a new file; `put link
// TARGET LINK` swaps a symbolic link.
func put(ts *testscript.TestScript, _ bool, args []string) {
	from, to := args[1], ts.MkAbs(args[2])
	switch args[0] {
	case "in-place":
		text := ts.ReadFile(from)
		if len(text) < len(ts.ReadFile(args[2])) {
			ts.Fatalf("put in-place: %s is shorter than %s, so readers could see a mix of both", from, args[2])
		}
		file, err := os.OpenFile(to, os.O_WRONLY, 0)
		ts.Check(err)
		_, err = io.WriteString(file, text)
		ts.Check(err)
		ts.Check(file.Close())
	case "rename":
		ts.Check(os.WriteFile(to+"~", []byte(ts.ReadFile(from)), 0o600))
		ts.Check(os.Rename(to+"~", to))
	case "link":
		ts.Check(os.Symlink(from, to+"~"))
		ts.Check(os.Rename(to+"~", to))
	default:
		ts.Fatalf("put %s: want in-place, rename or link", args[0])
	}
}

// hold opens connections that clients may keep open: with half a request, idle, and
// with an endless stream.
func hold(ts *testscript.TestScript, _ bool, _ []string) {
	for _, sent := range []string{"", "GET /v1/auth-request HTTP/1.1\r\nHost: x\r\nX-Half"} {
		conn, err := net.Dial("tcp", ts.Getenv("HTTP"))
		ts.Check(err)
		ts.Defer(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, sent)
		ts.Check(err)
	}
	posting, err := net.Dial("tcp", ts.Getenv("HTTP"))
	ts.Check(err)
	ts.Defer(func() { _ = posting.Close() })
	_, err = io.WriteString(posting, "POST /rule/take HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nact=")
	ts.Check(err)

	conn, err := grpc.NewClient(ts.Getenv("GRPC"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	ts.Defer(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	ts.Defer(cancel)
	watch, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	ts.Check(err)
	_, err = watch.Recv()
	ts.Check(err)

	idle, err := net.Dial("tcp", ts.Getenv("GRPC"))
	ts.Check(err)
	ts.Defer(func() { _ = idle.Close() })
	_, err = bufio.NewReader(io.LimitReader(idle, 1)).ReadByte() // the first frame of the server, which has accepted the connection
	ts.Check(err)
}

// signalServer sends TERM, INT or HUP to the server.
func signalServer(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
	s := serverOf(ts)
	s.signaled = time.Now()
	ts.Check(s.process.Signal(signals[args[0]]))
}

// deafen closes the reading end of the log, as if its collector had crashed.
func deafen(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(serverOf(ts).stderr.Close()) }

// later waits for a duration. Stories must observe earlier events before it: on a
// busy machine a signal may arrive late.
func later(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	<-time.After(d)
}

// ended waits for the end of the server: `ended CODE [WITHIN]`, where WITHIN starts
// at the last signal.
func ended(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	s := serverOf(ts)
	within := patience
	if len(args) > 1 {
		within, err = time.ParseDuration(args[1])
		ts.Check(err)
	}
	select {
	case <-s.done:
	case <-time.After(time.Until(s.signaled.Add(within))):
		ts.Fatalf("the server still runs %s after the signal; its log:\n%s", within, s.log)
	}
	if s.code != code {
		ts.Fatalf("the exit code is %d, want %d; the log:\n%s", s.code, code, s.log)
	}
}
