package rlqs_test

import (
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// What an exception does to the only rule of a bucket reaches Envoy, and so does its end.
func TestExceptionsOfARuleReachEnvoy(t *testing.T) {
	const share = "ann: 10, 20 per 1s, for 7s"
	for name, test := range map[string]struct {
		exception  engine.Exception
		want, back string
		count      int64 // of the rule that the store gets
	}{
		"it passes":         {engine.Exception{Kind: engine.ExceptAllow}, "ann: ALLOW_ALL for 7s", share, 0},
		"it is refused":     {engine.Exception{Kind: engine.ExceptDeny}, "ann: DENY_ALL for 2s", share, 0},
		"its limit differs": {engine.Exception{Kind: engine.ExceptCount, Count: 40}, share, share, 40},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				g := d.connect("edge-1")
				g.report(used("ann", 0, 1, 0))
				g.got()
				d.store.take()
				x := test.exception
				x.ID, x.Until = "x1", time.Now().Add(3*time.Second).UnixMilli()
				for _, r := range d.engine.Rules().Rules {
					if r.Return == 201 {
						x.Match, _ = r.Identify(rules.MakeParams(map[string]string{"door": "rlqs", "tenant": "ann"}))
					}
				}
				d.banned.Set([]engine.Exception{x})
				pass(time.Second)
				g.want("with the exception", test.want)
				if used := d.store.take(); test.count > 0 && (len(used) != 1 || used[0].Rules[0].Count != test.count) {
					t.Errorf("the store gets %+v; want a count of %d", used, test.count)
				}
				pass(3 * time.Second)
				if used := d.store.take(); len(used) == 0 || used[len(used)-1].Rules[0].Count != 100 {
					t.Errorf("the store gets %+v after the exception; want a count of 100", used)
				}
				if got := g.got(); len(got) < len(test.back) || got[:len(test.back)] != test.back {
					t.Errorf("after the exception: %q; want %q", got, test.back)
				}
			})
		})
	}
}
