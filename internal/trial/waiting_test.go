package trial

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/rules"
)

// However often a caller renews and settles before the trial has decided, the first settlement
// waits alone.
func TestOneSettlementWaits(t *testing.T) {
	var r receipt
	for i := range uint64(1000) {
		r.wait(&settlement{Settlement: engine.Settlement{Hits: i}, renews: true})
	}
	if r.waiting.Hits != 999 {
		t.Errorf("renewal %d waits; want the last one", r.waiting.Hits)
	}
	for i := range uint64(1000) {
		r.wait(&settlement{Settlement: engine.Settlement{Hits: i}})
		r.wait(&settlement{renews: true})
	}
	if r.waiting.renews || r.waiting.Hits != 0 {
		t.Errorf("%+v waits; want the first settlement", r.waiting)
	}
}

// linking notes which receipts of the trial other instances find.
type linking map[string]string

func (l linking) Link(_ context.Context, inForce, onTrial string, _ time.Duration) error {
	l[inForce] = onTrial
	return nil
}

func (l linking) Linked(_ context.Context, inForce string) (string, error) { return l[inForce], nil }

// A renewal prolongs for how long other instances find the receipt of the trial.
func TestRenewalsProlongLinks(t *testing.T) {
	counters := memory.New(memory.Options{})
	defer counters.Close()
	links := make(linking)
	tried := Start(Options{Set: new(rules.Set), Counters: counters, Links: links})
	defer tried.Close()
	tried.receipts.expect("of the rules in force")
	tried.receipts.link(tried, "of the rules in force", "of the trial")
	clear(links)
	renewal := &settlement{Settlement: engine.Settlement{Receipt: "of the rules in force"}, renews: true}
	if renewal.run(tried); links["of the rules in force"] != "of the trial" {
		t.Error("a renewal leaves the link as it was")
	}
}

// Another instance finds the receipt of the trial unless a settlement has ended it here.
func TestReceiptsAreLinkedUntilTheyAreSettled(t *testing.T) {
	for name, c := range map[string]struct {
		waiting []*settlement
		linked  bool
	}{
		"nothing waits":               {nil, true},
		"a renewal waits":             {[]*settlement{{renews: true}}, true},
		"a settlement waits":          {[]*settlement{{}}, false},
		"a renewal, and a settlement": {[]*settlement{{renews: true}, {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			counters := memory.New(memory.Options{})
			defer counters.Close()
			links := make(linking)
			tried := Start(Options{Set: new(rules.Set), Counters: counters, Links: links})
			defer tried.Close()
			r := &tried.receipts
			r.expect("of the rules in force")
			for _, s := range c.waiting {
				s.Receipt = "of the rules in force"
				tried.settle(&s.Settlement, s.renews)
			}
			r.link(tried, "of the rules in force", "of the trial")
			if linked := links["of the rules in force"] == "of the trial"; linked != c.linked {
				t.Errorf("linked: %v; want %v", linked, c.linked)
			}
		})
	}
}
