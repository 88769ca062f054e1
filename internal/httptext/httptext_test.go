package httptext

import "testing"

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
