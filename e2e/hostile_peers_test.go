package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
)

// Attackers that reach an instance directly flood it in every way at once. Gateways
// that let requests pass if a check fails keep the rules and the limit meanwhile, and
// the instance stays below 300 MB.
func TestHostilePeersKeepNoLimitOff(t *testing.T) {
	h := newFixture(t)
	plain := filepath.Join(h.dir, "koalagate")
	if err := h.stage.Build(plain, false); err != nil { // the race detector multiplies memory
		t.Fatal(err)
	}
	const limit = 50
	k := must(h.stage.Koalagate(plain, append(raceSettings, "KOALAGATE_HTTP_HEADER_TIMEOUT=1s"), "--redis", h.redis().URL(), "--rules", h.file("rules.conf", fmt.Sprintf(`
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
	app := h.app()
	gateways := []*e2e.Gateway{h.nginx(app, k), h.envoy(app, k)}

	var attackers sync.WaitGroup
	for _, attack := range hostileAttacks(t, k) {
		attackers.Go(attack)
	}
	var allowed sync.Map
	concurrently(8, func(client int) {
		for i := range 40 {
			g := gateways[i%2]
			if status, err := sendRaw(g, "GET /a HTTP/1.1\r\nHost: blocked.example"); err != nil || status != http.StatusForbidden {
				t.Errorf("a blocked request: %d, %v; want 403", status, err)
			}
			switch status, err := sendRaw(g, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-User-Id: ann"); {
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
	if peak := peakMemory(t, k); peak > 300<<20 {
		t.Errorf("the instance used %d MB; want at most 300", peak>>20)
	}
	if r := must(k.Readyz())(t); !r.Ready || r.Store != "redis" {
		t.Errorf("/readyz is %+v; want ready, with Redis", r)
	}
	metrics := wantStatus(t, http.StatusOK, "GET", "http://"+k.Admin+"/metrics").body
	for _, bound := range []string{"resets", "settings", "header_size", "http_receive", "http_header_size"} {
		if !regexp.MustCompile(`koalagate_bounds_total\{bound="` + bound + `"\} [1-9]`).MatchString(metrics) {
			t.Errorf("no attack exceeded %s", bound)
		}
	}
}

// peakMemory returns the largest resident memory of a program so far, in bytes.
func peakMemory(t *testing.T, k *e2e.Koalagate) int {
	t.Helper()
	status := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", k.PID())))(t))
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	return must(strconv.Atoi(found[1]))(t) << 10
}

// dialAs opens a connection from another loopback address than that of the gateways.
func dialAs(t *testing.T, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	conn, err := d.Dial("tcp", address)
	if err != nil {
		t.Error(err) // not Fatal: attackers are other goroutines
		return nil
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // a closed connection fails later anyway
	return conn
}

// hostileAttacks returns the attacks on an instance. Each ends by itself.
func hostileAttacks(t *testing.T, k *e2e.Koalagate) []func() {
	times := func(n int, do func()) func() {
		return func() {
			for range n {
				do()
			}
		}
	}
	attacks := []func(){
		times(1000, func() { dialAs(t, k.GRPC); dialAs(t, k.HTTP) }), // idle until the test ends
		times(2, func() { flood(t, k.GRPC, cancelCall) }),
		times(2, func() { flood(t, k.GRPC, toggleSettings) }),
		times(2, func() { flood(t, k.GRPC, beginAndStop) }),
		times(10, func() { flood(t, k.GRPC, endlessHeader) }),
		times(10, func() { // 10 MB
			sendPart(t, k.HTTP, "GET /v1/auth-request HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-H: "+strings.Repeat("x", 10_000)+"\r\n", 1000))
		}),
	}
	for range 20 {
		attacks = append(attacks, func() { trickle(t, k.HTTP) })
	}
	for i := range 128 {
		attacks = append(attacks, times(5, func() {
			for _, text := range malformed {
				sendPart(t, []string{k.HTTP, k.GRPC}[i%2], text)
			}
		}))
	}
	return attacks
}

// malformed lists requests that no address can read, or that no door can.
var malformed = []string{
	"GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", h2.ClientPreface + strings.Repeat("\xff", 9000),
	"POST /v1/auth-request HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	"GET /v1/auth-request HTTP/1.1\r\nHost: x\r\nX-Original-Method: GET\r\nX-Original-URI: /%zz\r\nX-Real-IP: nobody\r\nConnection: close\r\n\r\n",
	"GET /rule/take?" + strings.Repeat("%zz=&", 5000) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
}

// sendPart sends text on a connection of its own, and reads the answer until the service
// or, after a moment, the attacker closes it.
func sendPart(t *testing.T, address, text string) {
	conn := dialAs(t, address)
	if conn == nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond)) // as in dialAs
	_, _ = io.WriteString(conn, text)                            // the service may close it at any time
	_, _ = io.Copy(io.Discard, conn)
}

// trickle sends a header byte by byte until the service closes the connection.
func trickle(t *testing.T, address string) {
	conn := dialAs(t, address)
	if conn == nil {
		return
	}
	defer conn.Close()
	text := "GET /v1/auth-request HTTP/1.1\r\nHost: x\r\nX-H: "
	for i := 0; ; i++ {
		if _, err := io.WriteString(conn, text[min(i, len(text)-1):][:1]); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// flood sends frames on one connection until the service closes it, or for 100,000
// rounds. It answers nothing.
func flood(t *testing.T, address string, send func(f *h2.Framer, round uint32) error) {
	conn := dialAs(t, address)
	if conn == nil {
		return
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
	buffered := &batch{conn: conn}
	framer := h2.NewFramer(buffered, conn)
	_, _ = io.WriteString(conn, h2.ClientPreface) // the next write fails, too
	_ = framer.WriteSettings()
	for round := range uint32(100_000) {
		if send(framer, round) != nil {
			return
		}
	}
}

// batch sends frames in packets of 16 kB, which cost the attacker little.
type batch struct {
	conn   net.Conn
	frames bytes.Buffer
}

func (b *batch) Write(frame []byte) (int, error) {
	b.frames.Write(frame)
	if b.frames.Len() < 16<<10 {
		return len(frame), nil
	}
	_, err := b.frames.WriteTo(b.conn)
	return len(frame), err
}

// callBlock is the encoded header of a call of ext_authz.
var callBlock = sync.OnceValue(func() []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/envoy.service.auth.v3.Authorization/Check"},
		{Name: ":authority", Value: "koalagate"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		f.Sensitive = true // not indexed: the same block is valid for every call
		_ = encoder.WriteField(f)
	}
	return slices.Clone(block.Bytes())
})

func beginCall(f *h2.Framer, stream uint32) error {
	return f.WriteHeaders(h2.HeadersFrameParam{StreamID: stream, BlockFragment: callBlock(), EndHeaders: true})
}

// cancelCall begins a call and cancels it.
func cancelCall(f *h2.Framer, round uint32) error {
	if err := beginCall(f, 2*round+1); err != nil {
		return err
	}
	return f.WriteRSTStream(2*round+1, h2.ErrCodeCancel)
}

// toggleSettings changes the windows of 1000 open calls.
func toggleSettings(f *h2.Framer, round uint32) error {
	if round < 1000 {
		return beginCall(f, 2*round+1)
	}
	return f.WriteSettings(h2.Setting{ID: h2.SettingInitialWindowSize, Val: 65535 - round%2})
}

// beginAndStop announces 500 kB in each of 1000 calls, and never sends them.
func beginAndStop(f *h2.Framer, round uint32) error {
	if round >= 1000 {
		return io.EOF
	}
	if err := beginCall(f, 2*round+1); err != nil {
		return err
	}
	return f.WriteData(2*round+1, false, []byte{0, 0, 7, 0xa1, 0x20, 1, 2, 3})
}

// endlessHeader continues a header without end.
func endlessHeader(f *h2.Framer, round uint32) error {
	if round == 0 {
		return f.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, BlockFragment: callBlock()})
	}
	return f.WriteContinuation(1, false, make([]byte, 16<<10))
}

// Idle connections leave a process with few descriptors enough for Redis, reloads, health
// checks and new callers.
func TestHostileIdleConnectionsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	limited := h.file("limited.sh", "#!/bin/sh\nulimit -n 64\nexec '"+binary+"' \"$@\"\n")
	if err := os.Chmod(limited, 0o700); err != nil {
		t.Fatal(err)
	}
	file := h.file("rules.conf", limitedTo(1000))
	k := must(h.stage.Koalagate(limited, raceSettings, "--rules", file, "--redis", h.redis().URL()))(t)
	for range 200 {
		for _, address := range []string{k.GRPC, k.HTTP} {
			if conn, err := net.DialTimeout("tcp", address, 10*time.Second); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		}
	}
	if err := os.WriteFile(file, []byte(limitedTo(2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the changed rules are active", func() bool {
		r, err := k.Readyz()
		return err == nil && r.Ready && r.Generation > 1 && r.Store == "redis"
	})
	conn := must(grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	if status := checkStatus(t, authv3.NewAuthorizationClient(conn), httpCheck("/", nil)); status != http.StatusOK {
		t.Errorf("a check over gRPC: %d; want 200", status)
	}
	if status := sendCheck(t, k.HTTP, "forward-auth", "/", nil); status != http.StatusOK {
		t.Errorf("a check over HTTP: %d; want 200", status)
	}
	if !strings.Contains(k.Log(), "ulimit -n") {
		t.Error("the log does not name the remedy")
	}
	if strings.Contains(k.Log(), "unreachable") {
		t.Errorf("Redis was left:\n%s", k.Log())
	}
}
