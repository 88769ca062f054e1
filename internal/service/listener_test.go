package service

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
)

// wantClosed fails the test unless the service closes a connection.
func wantClosed(t *testing.T, name string, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection is open", name)
	}
}

// wantBound fails the test unless the metrics count a bound exactly n times, and the log
// names it.
func wantBound(t *testing.T, s *Service, text *logText, bound string, n string) {
	t.Helper()
	want := `koalagate_bounds_total{bound="` + bound + `"} ` + n + "\n"
	body := ""
	for wait := time.Now().Add(10 * time.Second); !strings.Contains(body, want) && time.Now().Before(wait); {
		_, body = get(t, s.Addresses().Admin, "/metrics")
	}
	if !strings.Contains(body, want) {
		t.Errorf("/metrics has no %s but %q", want, regexp.MustCompile(`koalagate_bounds_total\{bound="`+bound+`"\} .*`).FindString(body))
	}
	if !strings.Contains(text.String(), "bound="+bound) {
		t.Errorf("the log has no %s:\n%s", bound, text)
	}
}

// An address cannot take the connections of others: above its own limit it loses the
// connection that was silent longest, and connections of other addresses stay.
func TestPeersHaveTheirOwnConnections(t *testing.T) {
	s, text := open(t, map[string]any{
		"grpc_max_connections": 20, "grpc_max_connections_per_peer": 3, "http_max_connections": 20, "http_max_connections_per_peer": 3,
	})
	run(t, s)
	a := s.Addresses()
	grpcConn := dialGRPC(t, s)
	if _, err := authv3.NewAuthorizationClient(grpcConn).Check(t.Context(), &authv3.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{a.GRPC, a.HTTP} {
		other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		same := new(net.Dialer)
		dial := func(d *net.Dialer) net.Conn {
			conn, err := d.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		others := []net.Conn{dial(&other), dial(&other), dial(&other)}
		for range 8 {
			dial(same)
		}
		for _, conn := range others {
			if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			// The gRPC server begins with its settings.
			if _, err := io.Copy(io.Discard, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: a connection of the other address: %v; want it open", address, err)
			}
		}
		dial(&other)
		wantClosed(t, address, others[0])
	}
	if status, _ := get(t, a.HTTP, "/rule/browse?uid=ann"); status != http.StatusOK {
		t.Errorf("a request of the address with too many connections: %d", status)
	}
	wantBound(t, s, text, boundGRPCPeer, "7") // 9 of 127.0.0.1 and 4 of 127.0.0.2, of three each
	wantBound(t, s, text, boundHTTPPeer, "7")
	wantBound(t, s, text, boundGRPCPeer, "7")
}

// The peers of a Unix socket have no address, and so no limit of their own.
func TestUnixSocketsHaveNoLimitPerPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "http.sock")
	s, _ := open(t, map[string]any{"http_addr": "unix:" + path, "http_max_connections_per_peer": 1})
	run(t, s)
	for range 3 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	if _, body := get(t, s.Addresses().Admin, "/metrics"); !strings.Contains(body, `koalagate_bounds_total{bound="http_peer_connections"} 0`) {
		t.Error("a connection was closed")
	}
}

// sendHTTP sends a text over a new connection to the HTTP address.
func sendHTTP(t *testing.T, s *Service, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addresses().HTTP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

const browse = "GET /rule/browse?uid=a HTTP/1.1\r\nHost: localhost\r\n\r\n"

// net/http ends slow, long and unread exchanges itself; they are counted.
func TestSlowRequestsAreCountedAndLogged(t *testing.T) {
	s, text := open(t, map[string]any{"http_header_timeout": "100ms", "http_receive_timeout": "2s"})
	run(t, s)
	slow := map[string]net.Conn{
		"half a form":   sendHTTP(t, s, "POST /rule/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nuid="),
		"nothing":       sendHTTP(t, s, ""),
		"half a header": sendHTTP(t, s, "GET /rule/browse?uid=a HTTP/1.1\r\nHost: localhost\r\nX-H: "),
	}
	n := len(slow) + 1
	second := sendHTTP(t, s, browse)
	for first := make([]byte, 1); ; n++ {
		if _, err := second.Read(first); err == nil {
			break
		}
		second = sendHTTP(t, s, browse) // the machine paused while this one was on its way: it counts, too
	}
	if _, err := io.WriteString(second, "GET /"); err != nil {
		t.Fatal(err)
	}
	slow["half a second request"] = second
	for name, conn := range slow {
		wantClosed(t, name, conn)
	}
	wantBound(t, s, text, boundHTTPReceive, strconv.Itoa(n))
}

func TestLongHeadersAreCountedAndIdleConnectionsAreNot(t *testing.T) {
	s, text := open(t, map[string]any{"http_max_header": 4096, "http_idle_timeout": "1s"})
	run(t, s)
	wantClosed(t, "idle", sendHTTP(t, s, browse))
	wantClosed(t, "a long header", sendHTTP(t, s, "GET / HTTP/1.1\r\nHost: localhost\r\nX-H: "+strings.Repeat("x", 10_000)+"\r\n\r\n"))
	wantBound(t, s, text, boundHTTPHeader, "1")
	if _, body := get(t, s.Addresses().Admin, "/metrics"); !strings.Contains(body, `koalagate_bounds_total{bound="`+boundHTTPReceive+`"} 0`) {
		t.Error("an idle connection or a long header counts as a request that did not arrive")
	}
}

// slowConn is a connection whose peer does not read.
type slowConn struct{ net.Conn }

func (slowConn) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestUnreadAnswersAreCounted(t *testing.T) {
	var got []string
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	c := &watchedConn{Conn: slowConn{here}, exceeded: func(bound string, _ net.Addr) { got = append(got, bound) }}
	if _, err := c.Write([]byte("HTTP/1.1 200 OK")); err == nil || len(got) != 1 || got[0] != boundHTTPSend {
		t.Errorf("%v, exceeded %v; want %s", err, got, boundHTTPSend)
	}
}
