package rules

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// A copy has the same parameters with their sources, and no string of the original.
func TestCopiesOfParamsShareNothing(t *testing.T) {
	for _, n := range []int{0, 1, fewParams, fewParams + 1, 100} {
		request := []byte("value-and-name")
		text := unsafe.String(&request[0], len(request)) // as doors make them
		p := new(Params)
		for i := range n {
			p.Set(fmt.Sprint("p", i), text[:5])
		}
		p.SetFrom(FromCookie, text[10:], text[:5])
		p.Shorten(text[10:], text[:5])
		c := p.Clone()
		want := fmt.Sprint(p.List(), p.later, p.shortened)
		copy(request, "overwritten by the next")
		if diff := cmp.Diff(want, fmt.Sprint(c.List(), c.later, c.shortened)); diff != "" {
			t.Errorf("%d parameters (-want +got):\n%s", n, diff)
		}
		if value, _ := c.Get("name"); value != "value" {
			t.Errorf("%d parameters: name is %q", n, value)
		}
	}
	if (*Params)(nil).Clone() != nil {
		t.Error("a copy of nothing is something")
	}
}
