package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// Node is a redis-server of a test's own on a port of loopback: a server with
// options, a Sentinel or a node of a Cluster. It ends with the test.
type Node struct {
	process
	Address string // host:port
	Dir     string // where it keeps its files
	args    []string
	options goredis.Options // of clients
}

// StartNode starts a redis-server that keeps nothing on disk and has these
// options beside. PORT in them stands for its port, DIR for its folder.
// Clients of it use client for what they need.
func StartNode(t testing.TB, client goredis.Options, args ...string) *Node {
	t.Helper()
	n := NewNode(t)
	n.options = client
	n.args = append([]string{"--save", "", "--appendonly", "no"}, args...)
	n.startAtFreePort(n.Launch)
	return n
}

// NewNode has a port and a folder, and is not started yet.
func NewNode(t testing.TB) *Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "koala")
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{process: process{t: t}, Dir: dir, Address: freeAddress(t)}
	t.Cleanup(func() {
		n.Kill()
		given.Delete(n.Address)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return n
}

// given are the addresses of this process's nodes, whether these listen yet or
// not.
var given sync.Map

// freeAddress has a port that nobody listens on, nor on the one 10000 above, which
// nodes of a Cluster talk to each other on. Both are below the ports that
// connections are given. It is nobody else's in this process.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 12000 + rand.IntN(9000)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if _, taken := given.LoadOrStore(address, true); taken {
			continue
		}
		if listens(port) && listens(port+10000) {
			return address
		}
		given.Delete(address)
	}
	t.Fatal("no port is free")
	return ""
}

// startAtFreePort starts the node for the first time. Where another process has
// taken its port since that was found free, it gets another one.
func (n *Node) startAtFreePort(launch func()) {
	n.t.Helper()
	for {
		launch()
		late := false
		Eventually(n.t, func() error {
			if late = strings.Contains(n.Log(), "Address already in use"); late {
				return nil
			}
			return n.answers()
		})
		if !late {
			return
		}
		n.Kill()
		if err := os.Remove(filepath.Join(n.Dir, "log")); err != nil {
			n.t.Fatal(err)
		}
		given.Delete(n.Address)
		n.Address = freeAddress(n.t)
	}
}

func listens(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Port is the port that it listens on.
func (n *Node) Port() string {
	_, port, _ := net.SplitHostPort(n.Address)
	return port
}

// Start starts the node, after Kill with what it has on disk, and waits until it
// answers.
func (n *Node) Start() {
	n.t.Helper()
	n.Launch()
	n.Await()
}

// Launch starts the node, after Kill with what it has on disk.
func (n *Node) Launch() {
	n.t.Helper()
	args := []string{"--port", n.Port()}
	for _, a := range n.args {
		args = append(args, strings.NewReplacer("PORT", n.Port(), "DIR", n.Dir).Replace(a))
	}
	n.run(append(args, "--bind", "127.0.0.1", "--daemonize", "no", "--dir", n.Dir)...)
}

// StartSentinel starts the node as a Sentinel of masters, with these lines of
// its configuration beside.
func (n *Node) StartSentinel(client goredis.Options, lines ...string) {
	n.t.Helper()
	n.options = client
	n.startAtFreePort(func() { n.launchSentinel(lines) })
}

// answers tells what keeps the node from answering; that another process answers
// at its address is such a thing.
func (n *Node) answers() error {
	o := n.options
	o.Addr, o.DialerRetries, o.ReadTimeout, o.MaxRetries = n.Address, 1, time.Second, -1
	client := goredis.NewClient(&o)
	defer client.Close()
	info, err := client.Info(context.Background(), "server").Result()
	if own := fmt.Sprintf("process_id:%d\r", n.cmd.Process.Pid); err == nil && !strings.Contains(info, own) {
		return fmt.Errorf("%s is not the %s that was started: %s", n.Address, own, info)
	}
	return err
}

func (n *Node) launchSentinel(lines []string) {
	n.t.Helper()
	file := filepath.Join(n.Dir, "sentinel.conf")
	text := strings.Join(append([]string{"port " + n.Port(), "bind 127.0.0.1", "dir " + n.Dir}, lines...), "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.run(file, "--sentinel")
}

// run runs redis-server.
func (n *Node) run(args ...string) {
	n.t.Helper()
	n.cmd = exec.Command(find(n.t, "redis-server"), args...)
	log, err := os.OpenFile(filepath.Join(n.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// Await waits until the node answers.
func (n *Node) Await() {
	n.t.Helper()
	client := n.Client()
	defer client.Close()
	Eventually(n.t, func() error { return client.Ping(context.Background()).Err() })
}

// Log is what the node has logged.
func (n *Node) Log() string {
	text, err := os.ReadFile(filepath.Join(n.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Client returns a plain client of the node. The caller closes it.
func (n *Node) Client() *goredis.Client {
	o := n.options
	o.Addr, o.DialerRetries, o.ReadTimeout = n.Address, 1, patience
	return goredis.NewClient(&o)
}

// SetClient has later clients use o.
func (n *Node) SetClient(o goredis.Options) { n.options = o }

// Do sends the node one command and returns the answer.
func (n *Node) Do(command ...any) (any, error) {
	client := n.Client()
	defer client.Close()
	return client.Do(context.Background(), command...).Result()
}

// MustDo is Do where the command has to work.
func (n *Node) MustDo(command ...any) any {
	n.t.Helper()
	reply, err := n.Do(command...)
	if err != nil {
		n.t.Fatalf("%v: %v\n%s", command, err, n.Log())
	}
	return reply
}

// Eventually waits until f has no error any more.
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("after %v: %v", patience, err)
		}
	}
}
