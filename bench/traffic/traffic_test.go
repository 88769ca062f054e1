package traffic_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

var kinds = []traffic.Kind{
	traffic.OneCounter, traffic.Leased, traffic.Plain, traffic.Four, traffic.FourOfOneValue, traffic.Methods, traffic.Attack,
	traffic.TwoOfOne, traffic.FourOfOne, traffic.EightOfOne, traffic.Token, traffic.Leak, traffic.Shadow,
	traffic.TokenDay, traffic.BaseCount, traffic.LeakDay, traffic.Receipt,
	traffic.OneFull, traffic.TwoFull, traffic.UserFull, traffic.TokenFull, traffic.BaseFull, traffic.LeakFull,
	traffic.FourFull, traffic.ReceiptFull, traffic.OneOfFifteen,
}

// TestShareOfRefusals decides calls of each kind by the rule file of its names, and by the
// plans for the stores alone.
func TestShareOfRefusals(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			file := []rules.Source{{Name: "bench.conf", Text: []byte(traffic.Rules(k.Names()...))}}
			set, findings := rules.Parse(file, rules.Options{})
			if findings.HasErrors() {
				t.Fatal(findings)
			}
			counters := memory.New(memory.Options{})
			defer counters.Close()
			alone := memory.New(memory.Options{})
			defer alone.Close()
			e := engine.New(set, wiring.CountIn(counters))
			refused, refusedAlone := 0, 0
			const first, calls = 300, 3000 // the first call of each identity is admitted
			for i := range first + calls {
				about := k.Request(i)
				var inputs []engine.Input
				plan := store.Plan{Op: store.Take, Zone: time.UTC}
				for _, d := range about {
					inputs = append(inputs, engine.Input{Params: rules.MakeParams(map[string]string{d.Name: d.Value})})
					plan.Sets = append(plan.Sets, traffic.Set(d))
				}
				d, err := e.Decide(context.Background(), &engine.Call{Door: "ratelimit", Op: engine.Take, Inputs: inputs})
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed() && i >= first {
					refused++
				}
				if refusesAlone(t, alone, &plan) && i >= first {
					refusedAlone++
				}
			}
			if want := k.Refused * calls; float64(refused) != want || float64(refusedAlone) != want {
				t.Errorf("%d of %d calls were refused, and %d by the store alone; want %v", refused, calls, refusedAlone, want)
			}
		})
	}
}

func refusesAlone(t *testing.T, s store.Store, p *store.Plan) bool {
	var a store.Answers
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(a.Sets, func(one store.Answer) bool { return one.Decider >= 0 })
}

func TestNoTwoNamesShareAnIdentity(t *testing.T) {
	owner := map[string]string{}
	for _, k := range kinds {
		if k.Name == traffic.FourOfOneValue.Name {
			continue // it is about one identity of four names
		}
		for _, about := range k.Requests() {
			for _, d := range about {
				if other, known := owner[d.Value]; known && other != d.Name {
					t.Fatalf("%s is an identity of %s and of %s", d.Value, d.Name, other)
				}
				owner[d.Value] = d.Name
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(owner)) {
		if n := len(traffic.Of(owner[name])); n == 0 {
			t.Errorf("no limit of %s", owner[name])
		}
	}
}

// A binary of an earlier version gets the rules that it knows: they must be the same rules.
func TestRulesKeepTheirNumbers(t *testing.T) {
	all := traffic.Rules()
	for line := range strings.Lines(traffic.Rules("user", "settled")) {
		if !strings.Contains(all, line) {
			t.Errorf("%q is not a line of all rules", line)
		}
	}
	if n := strings.Count(traffic.Rules("user"), "rule :"); n != 4 {
		t.Errorf("%d rules of user; want 4", n)
	}
}

func TestSuitsPeers(t *testing.T) {
	for _, k := range kinds {
		suits := slices.Contains([]string{
			traffic.OneCounter.Name, traffic.Leased.Name, traffic.Plain.Name, traffic.Four.Name, traffic.FourOfOneValue.Name,
			traffic.Attack.Name, traffic.OneFull.Name, traffic.FourFull.Name, traffic.OneOfFifteen.Name,
		}, k.Name)
		if k.SuitsPeers() != suits {
			t.Errorf("%s: suits envoyproxy/ratelimit: %v; want %v", k.Name, k.SuitsPeers(), suits)
		}
	}
	if config := traffic.PeerConfig(); strings.Contains(config, "user") || !strings.Contains(config, "key: uid") {
		t.Errorf("limits of the peer:\n%s", config)
	}
}
