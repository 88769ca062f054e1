package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestParamsMatchMap compares Params with a map, below and above the number of
// parameters from which Params uses a map.
func TestParamsMatchMap(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 7))
	var p Params
	for range 200 {
		p.Reset()
		want := make(map[string]string)
		names := 1 + random.IntN(3*fewParams)
		for step := range 400 {
			name, value := fmt.Sprintf("name%d", random.IntN(names)), strconv.Itoa(step)
			if random.IntN(3) == 0 {
				p.Delete(name)
				delete(want, name)
			} else {
				p.Set(name, value)
				want[name] = value
			}
			if got, ok := p.Get(name); got != want[name] || ok != (want[name] != "") {
				t.Fatalf("%s is %q, %v; want %q", name, got, ok, want[name])
			}
		}
		got := make(map[string]string)
		for _, parameter := range p.List() {
			got[parameter.Name] = parameter.Value
			if value, ok := p.Get(parameter.Name); !ok || value != parameter.Value {
				t.Fatalf("%s is %q in the list, and %q, %v", parameter.Name, parameter.Value, value, ok)
			}
		}
		if !maps.Equal(got, want) || p.Len() != len(want) {
			t.Fatalf("got %v; want %v", p.List(), want)
		}
		again := MakeParams(want)
		for name, value := range want {
			if got, _ := again.Get(name); got != value {
				t.Fatalf("%s is %q; want %q", name, got, value)
			}
		}
	}
}
