package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/koalagate/koalagate/bench/resp"
)

// checkKey is a part of the key with which the service checks whether Redis answers, as it
// does while calls take long. These checks pass.
const checkKey = "{%F5check"

// decides is a part of the script that decides, which no other script of the service has.
const decides = "cmsgpack.unpack(ARGV[1])"

// proxy is between a service and its Redis. While it is shut, calls of the script that
// decides wait in it.
type proxy struct {
	listener net.Listener
	redis    string
	arrived  chan *held
	closed   chan struct{}

	mu     sync.Mutex
	shut   bool
	script string // the text of the script that decides, "" until it was sent
	hash   string // of script
}

// held is a script call that waits in the proxy.
type held struct {
	raw   []byte // the command in wire form
	leave chan struct{}
}

// pass lets the call go on to Redis.
func (h *held) pass() { close(h.leave) }

// listen starts a proxy in front of the Redis at an address. close ends it.
func listen(ctx context.Context, redis string) (*proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, redis: redis, arrived: make(chan *held), closed: make(chan struct{})}
	go p.accept(ctx) // until the listener is closed
	return p, nil
}

// close lets all calls go that wait. It must be called once.
func (p *proxy) close() {
	close(p.closed)
	_ = p.listener.Close() // nothing connects any more
}

func (p *proxy) accept(ctx context.Context) {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(ctx, conn) // until either side closes its connection
	}
}

// serve passes on the commands of a connection, and the replies as they are.
func (p *proxy) serve(ctx context.Context, service net.Conn) {
	defer service.Close()
	redis, err := new(net.Dialer).DialContext(ctx, "tcp", p.redis)
	if err != nil {
		return
	}
	defer redis.Close()
	go func() {
		_, _ = io.Copy(service, redis) // an error means that a side has closed it
		_ = service.Close()
	}()
	for in := bufio.NewReader(service); ; {
		args, raw, err := resp.ReadCommand(in)
		if err != nil || len(args) == 0 {
			return
		}
		p.note(args, raw)
		if _, err := redis.Write(raw); err != nil {
			return
		}
	}
}

// note learns the script, and makes its calls wait while the proxy is shut.
func (p *proxy) note(args []string, raw []byte) {
	if len(args) < 3 {
		return
	}
	p.mu.Lock()
	shut := false
	switch strings.ToLower(args[0]) {
	case "eval":
		if strings.Contains(args[1], decides) {
			sum := sha1.Sum([]byte(args[1])) //nolint:gosec // as above
			p.script, p.hash = args[1], hex.EncodeToString(sum[:])
		}
	case "evalsha":
		shut = p.shut && args[1] == p.hash && !bytes.Contains(raw, []byte(checkKey))
	}
	p.mu.Unlock()
	if shut {
		h := &held{raw, make(chan struct{})}
		select {
		case p.arrived <- h:
		case <-p.closed:
			return
		}
		select {
		case <-h.leave:
		case <-p.closed:
		}
	}
}

// setShut sets whether script calls wait.
func (p *proxy) setShut(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = shut
}

// text returns the text of the script that decides, "" if it was never sent.
func (p *proxy) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.script
}
