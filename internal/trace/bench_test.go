package trace_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// discard is an output that discards all writes.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// BenchmarkObserve measures the cost of the decision log per decision, with one
// caller and with one per processor. Callers share only the lock of the log.
func BenchmarkObserve(b *testing.B) {
	p := new(rules.Params)
	for _, name := range []string{"door", "method", "host", "path", "scheme", "ip", "act", "uid"} {
		p.Set(name, "the-value-of-"+name)
	}
	rule := &rules.Rule{Return: 201}
	call := &engine.Call{Door: "ext_authz", Op: engine.Take, Inputs: []engine.Input{{Params: p, Hits: 1}}}
	decision := &engine.Decision{At: 1_780_286_400_000, Refuser: -1, Answers: []engine.Answer{{
		Decider: rule, Result: &rules.Result{Number: 1}, Limited: true, Quota: engine.Quota{Rule: rule, Limit: 5, Remaining: 4, Reset: 60_000_000_000}, Retry: -1,
	}}}
	for _, shown := range []string{trace.ShowAll, trace.ShowNone} {
		for _, every := range []int{1, 100} {
			l, err := trace.NewLog(trace.LogOptions{
				Open:  func() (io.WriteCloser, error) { return discard{io.Discard}, nil },
				Every: every, Mask: trace.NewMask([]string{shown}),
			})
			if err != nil {
				b.Fatal(err)
			}
			name := fmt.Sprintf("%s/every=%d/", shown, every)
			b.Run(name+"alone", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					l.Observe(call, decision, nil)
				}
			})
			b.Run(name+"parallel", func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						l.Observe(call, decision, nil)
					}
				})
			})
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
