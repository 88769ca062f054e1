package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// Node is a redis-server for one test on a loopback port: a server with options, a
// Sentinel or a node of a Cluster. It ends with the test.
type Node struct {
	process
	Address string // host:port
	Dir     string // folder of its files
	args    []string
	options goredis.Options // of clients
}

// StartNode starts a redis-server that keeps nothing on disk, with further options
// in args. PORT in them is replaced by its port, DIR by its folder. Clients of the
// node use the options in client.
func StartNode(t testing.TB, client goredis.Options, args ...string) *Node {
	t.Helper()
	n := NewNode(t)
	n.options = client
	n.args = append([]string{"--save", "", "--appendonly", "no"}, args...)
	n.startAtFreePort(n.Launch)
	return n
}

// NewNode returns a node with a port and a folder, which is not started.
func NewNode(t testing.TB) *Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "koala")
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{process: process{t: t}, Dir: dir, Address: freeAddress(t)}
	t.Cleanup(func() {
		n.Kill()
		release(n.Address)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return n
}

// taken holds the addresses of this process's nodes, whether these listen or not, with
// what reserves each in other processes.
var taken sync.Map

// reserve reserves an address for a node of this process, and reports whether no node has
// it. On Linux the name of a socket reserves it in all processes: tests of other packages
// start nodes at the same time, also while this one is stopped.
func reserve(address string) bool {
	if _, exists := taken.LoadOrStore(address, nil); exists {
		return false
	}
	if runtime.GOOS != "linux" {
		return true
	}
	name, err := net.Listen("unix", "@koalagate-test-node-"+address)
	if err != nil {
		taken.Delete(address)
		return false
	}
	taken.Store(address, name)
	return true
}

// release ends the reservation of an address.
func release(address string) {
	if name, _ := taken.LoadAndDelete(address); name != nil {
		_ = name.(net.Listener).Close() // nothing connects to it
	}
}

// freeAddress returns an address whose port is free, as is the port 10000 above,
// which nodes of a Cluster use among themselves. Both are below the ephemeral ports.
// No other node has the address.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 12000 + rand.IntN(9000)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if !reserve(address) {
			continue
		}
		if isFree(port) && isFree(port+10000) {
			return address
		}
		release(address)
	}
	t.Fatal("no port is free")
	return ""
}

// startAtFreePort starts the node for the first time. If another process has taken
// its port meanwhile, the node gets another one.
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
		release(n.Address)
		n.Address = freeAddress(n.t)
	}
}

// isFree reports whether a loopback port is free.
func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Port returns the port that the node listens on.
func (n *Node) Port() string {
	_, port, _ := net.SplitHostPort(n.Address)
	return port
}

// Start starts the node with its data on disk, and waits until it answers.
func (n *Node) Start() {
	n.t.Helper()
	n.Launch()
	n.Await()
}

// Launch starts the node with its data on disk, and does not wait.
func (n *Node) Launch() {
	n.t.Helper()
	args := []string{"--port", n.Port()}
	for _, a := range n.args {
		args = append(args, strings.NewReplacer("PORT", n.Port(), "DIR", n.Dir).Replace(a))
	}
	n.run(append(args, "--bind", "127.0.0.1", "--daemonize", "no", "--dir", n.Dir)...)
}

// StartSentinel starts the node as a Sentinel, with further lines of configuration.
func (n *Node) StartSentinel(client goredis.Options, lines ...string) {
	n.t.Helper()
	n.options = client
	n.startAtFreePort(func() { n.launchSentinel(lines) })
}

// answers returns an error if the node does not answer, or if another process
// answers at its address.
func (n *Node) answers() error {
	o := n.options
	o.Addr, o.DialerRetries, o.ReadTimeout, o.MaxRetries = n.Address, 1, time.Second, -1
	client := goredis.NewClient(&o)
	defer client.Close()
	info, err := client.Info(context.Background(), "server").Result()
	if own := fmt.Sprintf("process_id:%d\r", n.cmd.Process.Pid); err == nil && !strings.Contains(info, own) {
		return fmt.Errorf("%s is not the started %s: %s", n.Address, own, info)
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

// Log returns the log of the node.
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

// SetClient sets the options of later clients.
func (n *Node) SetClient(o goredis.Options) { n.options = o }

// Do sends one command to the node and returns the reply.
func (n *Node) Do(command ...any) (any, error) {
	client := n.Client()
	defer client.Close()
	return client.Do(context.Background(), command...).Result()
}

// MustDo is Do, and fails the test on an error.
func (n *Node) MustDo(command ...any) any {
	n.t.Helper()
	reply, err := n.Do(command...)
	if err != nil {
		n.t.Fatalf("%v: %v\n%s", command, err, n.Log())
	}
	return reply
}

// Eventually waits until f returns nil, and fails the test if it never does.
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
