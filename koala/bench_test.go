package koala_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/koalagate/koalagate/koala"
)

// sink is a ResponseWriter without costs, so that benchmarks measure only the door.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

func BenchmarkBrowse(b *testing.B) {
	h := koala.New(options(b))
	r := httptest.NewRequest("GET", "/rule/browse?act=post&uid=1", nil)
	w := &sink{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
