package operators_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Whatever somebody asks at the admin address, decisions on one processor go on: no request of
// an exhausted identity passes nginx, which lets requests pass after a second without a
// decision, and the 99th percentile stays within ten times of the calm one (bench/operators
// measures it).
func TestHostileOperatorsLetNothingPass(t *testing.T) {
	h := rig.NewFixture(t)
	const many, span, asking = 10_000, 700 * time.Millisecond, 3
	var text strings.Builder
	text.WriteString("[params]\nuid : header X-User-Id\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n[rules]\n")
	text.WriteString("rule : [count] [uid=+] [time=3600; count=1] [result=2; return=1]\n")
	for i := 2; i < many; i++ {
		fmt.Fprintf(&text, "rule : [count] [uid=+; kind=%d] [time=3600; count=9] [result=2; return=%d]\n", i, i)
	}
	k := rig.Must(h.Stage.Koalagate(h.Released(), []string{"GOMAXPROCS=1", "KOALAGATE_DECISION_LOG=" + filepath.Join(h.Dir, "decisions.jsonl")},
		"--redis", h.Redis().URL(), "--rules", h.File("rules.conf", text.String())))(t)
	app := h.App()
	g := h.Nginx(app, k)
	if status := rig.AskAs(rig.Client, g.URL, "ann"); status != http.StatusOK {
		t.Fatalf("the first request: %d; want 200", status)
	}
	before := app.Reached()
	decide := func(name string) time.Duration {
		var took []time.Duration
		for begin := time.Now(); time.Since(begin) < span; time.Sleep(2 * time.Millisecond) {
			at := time.Now()
			if status := rig.AskAs(rig.Client, g.URL, "ann"); status != http.StatusTooManyRequests {
				t.Errorf("%s: an exhausted identity got %d; want 429", name, status)
			}
			took = append(took, time.Since(at))
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	decide("warm")
	calm := max(decide("calm"), 5*time.Millisecond)
	for _, q := range e2e.AdminQuestions() {
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
		p99 := decide(q.Name)
		for range 2 { // the machine may be busy with something else for a moment
			if p99 > 10*calm {
				p99 = min(p99, decide(q.Name))
			}
		}
		leave()
		callers.Wait()
		first := 0
		select {
		case first = <-statuses:
		default: // no answer in this time
		}
		if !slices.Contains([]int{0, http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests}, first) {
			t.Errorf("%s: %d; want an answer, or 429", q.Name, first)
		}
		t.Logf("%-34.34s p99 %.1f ms, calm %.1f ms; first answer %d", q.Name, ms(p99), ms(calm), first)
		if p99 > 10*calm {
			t.Errorf("%s: the 99th percentile is %v; want at most ten times %v", q.Name, p99, calm)
		}
	}
	if passed := app.Reached() - before; passed > 0 {
		t.Errorf("%d requests of an exhausted identity passed", passed)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
