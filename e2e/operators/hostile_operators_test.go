package operators_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// maxOperated is the resident memory of an instance with 10,000 rules that answers any
// questions of operators, in bytes.
const maxOperated = 1000 << 20

// Whatever somebody asks at the admin address, decisions on one processor go on: no request of
// an exhausted identity passes nginx, which lets requests pass after a second without a
// decision, and the 99th percentile stays within ten times of the calm one (bench/operators
// measures it). The short form has too few requests for a percentile of each question, and takes
// it of all; the long form asks until most questions have their answers, and states each.
func TestHostileOperatorsLetNothingPass(t *testing.T) {
	h := rig.NewFixture(t)
	many, span, asking := 2_000, 200*time.Millisecond, 3
	if *long {
		many, span, asking = 10_000, 5*time.Second, 8
	}
	k := rig.Must(h.Stage.Operated(t.Context(), h.Released(), h.Dir, h.Redis().URL(), "rule : [count] [uid=+] [time=3600; count=1]", many))(t)
	app := h.App()
	g := h.Nginx(app, k.Koalagate)
	if status := rig.AskAs(rig.Client, g.URL, "ann"); status != http.StatusOK {
		t.Fatalf("the first request: %d; want 200", status)
	}
	before := app.Reached()
	decide := func(name string) (took []time.Duration) {
		for begin := time.Now(); time.Since(begin) < span; time.Sleep(2 * time.Millisecond) {
			at := time.Now()
			if status := rig.AskAs(rig.Client, g.URL, "ann"); status != http.StatusTooManyRequests {
				t.Errorf("%s: an exhausted identity got %d; want 429", name, status)
			}
			took = append(took, time.Since(at))
		}
		return took
	}
	decide("warm")
	calm := max(p99(decide("calm")), 5*time.Millisecond)
	var all []time.Duration // the latencies while somebody asks
	for _, q := range k.Questions() {
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		statuses := make(chan int, 1)
		for range asking {
			callers.Go(func() {
				for ctx.Err() == nil {
					status, err := k.Ask(ctx, &q)
					if err == nil {
						select {
						case statuses <- status:
						default:
						}
					}
				}
			})
		}
		took := decide(q.Name)
		for range 2 { // the machine may be busy with something else for a moment
			if *long && p99(took) > 10*calm {
				took = decide(q.Name)
			}
		}
		all = append(all, took...)
		leave()
		callers.Wait()
		first := 0
		select {
		case first = <-statuses:
		default: // no answer in this time
		}
		if !slices.Contains([]int{0, http.StatusOK, http.StatusTooManyRequests, q.Refused}, first) {
			t.Errorf("%s: %d; want 200, 429 or what refuses it, %d", q.Name, first, q.Refused)
		}
		t.Logf("%-34.34s p99 %.1f ms, calm %.1f ms; first answer %d", q.Name, ms(p99(took)), ms(calm), first)
		if *long && p99(took) > 10*calm {
			t.Errorf("%s: the 99th percentile is %v; want at most ten times %v", q.Name, p99(took), calm)
		}
	}
	if p99(all) > 10*calm {
		t.Errorf("the 99th percentile is %v; want at most ten times %v", p99(all), calm)
	}
	memory := rig.PeakMemory(t, k.Koalagate)
	t.Logf("the instance had at most %d MB", memory>>20)
	if memory > maxOperated {
		t.Errorf("the instance had %d MB; want %d MB at most", memory>>20, maxOperated>>20)
	}
	if passed := app.Reached() - before; passed > 0 {
		t.Errorf("%d requests of an exhausted identity passed", passed)
	}
}

// p99 returns the 99th percentile of latencies, which it sorts.
func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
