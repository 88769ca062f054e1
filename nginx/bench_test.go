package nginx_test

import (
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
