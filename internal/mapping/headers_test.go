package mapping

import (
	"net/http"
	"testing"
)

func TestHTTPHeaders(t *testing.T) {
	h := http.Header{}
	h.Add("X-User-Id", "ann")
	h.Add("X-Twice", "a")
	h.Add("X-Twice", "b")
	h.Add("Cookie", "a=1")
	h.Add("Cookie", "b=2")
	h.Add("X-Empty", "")
	h.Add("X-A--B-", "odd")
	for _, c := range []struct {
		name, want string
		ok         bool
	}{
		{"x-user-id", "ann", true},
		{"x-twice", "a,b", true},
		{"cookie", "a=1; b=2", true},
		{"x-empty", "", true},
		{"x-a--b-", "odd", true},
		{"x-absent", "", false},
		{"", "", false},
	} {
		if got, ok := HTTPHeaders(h).Header(c.name); got != c.want || ok != c.ok {
			t.Errorf("Header(%q) = %q, %v, want %q, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestHTTPHeadersDoNotAllocate(t *testing.T) {
	h := HTTPHeaders{"X-Koala-Param-Act": {"view"}}
	if allocs := testing.AllocsPerRun(100, func() { h.Header("x-koala-param-act") }); allocs != 0 {
		t.Errorf("a look-up allocates %v times, want none", allocs)
	}
}

// mapHeaders is a set of headers by lower-case name.
type mapHeaders map[string]string

func (h mapHeaders) Header(name string) (string, bool) {
	value, ok := h[name]
	return value, ok
}
