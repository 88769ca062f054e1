package nginx_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/koalagate/koalagate/nginx"
)

// sink is a ResponseWriter that costs nothing, so that a benchmark shows the
// door alone.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

func BenchmarkAuthRequest(b *testing.B) {
	for name, target := range map[string]string{"allowed": "/", "denied": "/comments", "blacklisted": "/black"} {
		b.Run(name, func(b *testing.B) {
			h := nginx.New(options(b))
			r := httptest.NewRequest("GET", "/v1/auth-request", nil)
			for list := viaNginx("GET", target); len(list) > 0; list = list[2:] {
				r.Header.Set(list[0], list[1])
			}
			w := &sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}
