package rescue

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store"
)

func TestScaleLimitsByShare(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  store.Rule
		share float64
		want  store.Rule
	}{
		{"a quarter", store.Rule{Method: store.Count, Count: 100, Weight: 1}, 0.25, store.Rule{Method: store.Count, Count: 25, Weight: 1}},
		{"rounded down", store.Rule{Method: store.Leak, Count: 99, Weight: 1}, 0.25, store.Rule{Method: store.Leak, Count: 24, Weight: 1}},
		{"at least one", store.Rule{Method: store.Count, Count: 2, Weight: 1}, 0.25, store.Rule{Method: store.Count, Count: 1, Weight: 1}},
		{"zero stays zero", store.Rule{Method: store.Count, Count: 0, Weight: 1}, 0.25, store.Rule{Method: store.Count, Count: 0, Weight: 1}},
		{"at least the weight", store.Rule{Method: store.Count, Count: 10, Weight: 5}, 0.25, store.Rule{Method: store.Count, Count: 5, Weight: 5}},
		{"at most the limit", store.Rule{Method: store.Count, Count: 10, Weight: 50}, 0.25, store.Rule{Method: store.Count, Count: 10, Weight: 50}},
		{"base, both of its windows", store.Rule{Method: store.Base, Base: 8, Count: 4, Weight: 1}, 0.5, store.Rule{Method: store.Base, Base: 4, Count: 2, Weight: 1}},
		{"token, burst and count", store.Rule{Method: store.Token, Burst: 20, Count: 10, Weight: 1}, 0.25, store.Rule{Method: store.Token, Burst: 5, Count: 2, Weight: 1}},
		{"token, at least one", store.Rule{Method: store.Token, Burst: 2, Count: 1, Weight: 1}, 0.1, store.Rule{Method: store.Token, Burst: 1, Count: 1, Weight: 1}},
	} {
		got := c.rule
		if scale(&got, c.share); got.Count != c.want.Count || got.Base != c.want.Base || got.Burst != c.want.Burst {
			t.Errorf("%s: %+v; want %+v", c.name, got, c.want)
		}
	}
}
