package method_test

import (
	"slices"
	"testing"

	"github.com/koalagate/koalagate/internal/method"
)

// Every method up to Hold has a name, and every number has a description.
func TestEachMethodIsDescribed(t *testing.T) {
	for n := range method.Number(method.Numbers) {
		is := method.Of(n)
		if known := n <= method.Hold; known != (is.Name != "") || known != (is.Limit != nil) {
			t.Errorf("method %d: name %q, limit %t; want both for methods up to %d only", n, is.Name, is.Limit != nil, method.Hold)
		}
		if counts := n > method.Direct && n <= method.Hold; counts != is.Counts {
			t.Errorf("method %d: Counts is %t", n, is.Counts)
		}
	}
	if want := []string{"direct", "count", "base", "leak", "token", "hold"}; !slices.Equal(method.Names(), want) {
		t.Errorf("got the names %q, want %q", method.Names(), want)
	}
}

func TestNamed(t *testing.T) {
	for _, name := range method.Names() {
		if n, known := method.Named(name); !known || method.Of(n).Name != name {
			t.Errorf("the method %s has the number %d, %t", name, n, known)
		}
	}
	for _, word := range []string{"", "cuont", "Count"} {
		if n, known := method.Named(word); known {
			t.Errorf("%q is method %d", word, n)
		}
	}
}

// The numbers are part of the layout in Redis.
func TestNumbersNeverChange(t *testing.T) {
	got := []method.Number{method.Direct, method.Count, method.Base, method.Leak, method.Token, method.Hold}
	if !slices.Equal(got, []method.Number{0, 1, 2, 3, 4, 5}) {
		t.Errorf("got the numbers %d", got)
	}
}

func TestLimits(t *testing.T) {
	for n, want := range map[method.Number]string{
		method.Direct: "direct",
		method.Count:  "at most 4 in 90 s",
		method.Base:   "3 free per day, then at most 4 in 90 s",
		method.Leak:   "at most 4 in any 90 s",
		method.Token:  "a bucket of 5, refilled with 4 in 90 s",
		method.Hold:   "at most 4 at the same time, for 90 s",
	} {
		if got := method.Of(n).Limit(4, 3, 5, "90 s"); got != want {
			t.Errorf("method %d: got %q, want %q", n, got, want)
		}
	}
}

// A number that no method has means a counter that counts nothing, whatever its size.
func TestUnknownNumbers(t *testing.T) {
	for _, n := range []method.Number{6, 7, 14, 255} {
		if is := method.Of(n); is.Counts || is.Name != "" {
			t.Errorf("method %d is %q", n, is.Name)
		}
	}
}
