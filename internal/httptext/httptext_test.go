package httptext

import (
	"strings"
	"testing"
	"time"
)

func TestJoinSegments(t *testing.T) {
	for want, segments := range map[string][]string{
		"":             {""},
		"a/b":          {"a", "b"},
		"a/b/":         {"a", "b", ""},
		"a%2Fb":        {"a/b"},
		"a%252Fb":      {"a%2Fb"},
		"50%25/x%2Fy/": {"50%", "x/y", ""},
	} {
		if got := JoinSegments(segments); got != want {
			t.Errorf("%q is %q; want %q", segments, got, want)
		}
	}
}

func TestIsReservedHeader(t *testing.T) {
	for name, want := range map[string]bool{"Host": true, "te": true, "CONTENT-LENGTH": true, "": false, "Content-Type": false, "Hostname": false} {
		if IsReservedHeader(name) != want {
			t.Errorf("%q is reserved: %t; want %t", name, !want, want)
		}
	}
}

func TestValidRequestID(t *testing.T) {
	for id, want := range map[string]bool{
		"":                       false,
		"1":                      true,
		"4bf92f35-77b3_A.:/+=@~": true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"a b":                    false,
		"a\"b":                   false,
		"a\nb":                   false,
		"a,b":                    false,
		"é":                      false,
		"<script>":               false,
	} {
		if got := ValidRequestID(id); got != want {
			t.Errorf("%q: %v; want %v", id, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	if s := Seconds(1001 * time.Millisecond); s != 2 {
		t.Errorf("1001 ms are %d s; want 2: a client that waits so long has waited long enough", s)
	}
}
