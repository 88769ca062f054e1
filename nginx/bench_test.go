package nginx_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/koalagate/koalagate/nginx"
)

// sink is a ResponseWriter that costs nothing, so that a benchmark shows the
// door alone.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

func BenchmarkAuthRequest(b *testing.B) {
	for _, c := range []struct {
		name, target string
		status       int // of the last answer
	}{
		{"without a rule", "/", 200},
		{"over a limit", "/comments", 403},
		{"black list", "/black", 403},
		{"below a limit", "/roomy", 200},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := nginx.New(options(b))
			r := httptest.NewRequest("GET", "/v1/auth-request", nil)
			r.RemoteAddr = "127.0.0.1:1"
			for list := viaNginx("GET", c.target); len(list) > 0; list = list[2:] {
				r.Header.Set(list[0], list[1])
			}
			w := &sink{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
			if w.status != c.status {
				b.Fatalf("status %d; want %d", w.status, c.status)
			}
		})
	}
}

// BenchmarkOverTheWire is a check over a kept connection of loopback, beside
// the same call of a handler that always answers the same: what the door adds
// to net/http.
func BenchmarkOverTheWire(b *testing.B) {
	constant := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"constant answer", constant}, {"below a limit", nginx.New(options(b))}} {
		b.Run(c.name, func(b *testing.B) {
			s := serve(b, c.handler)
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			question := []byte(head("GET", "/v1/auth-request", viaNginx("GET", "/roomy")...))
			room := make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(question); err != nil {
					b.Fatal(err)
				}
				n, err := conn.Read(room) // an answer without a body is one packet
				if err != nil || !bytes.HasPrefix(room[:n], []byte("HTTP/1.1 200")) {
					b.Fatalf("%s, %v", room[:n], err)
				}
			}
		})
	}
}
