package rules

import "runtime"

// yieldAt lets decisions that wait for a processor run first, at every 64th
// step. A rule set is built while an older one decides. Without the pauses the
// 99th percentile of decisions more than triples on a machine of two processors
// while 10,000 rules load.
func yieldAt(step int) {
	if step%64 == 0 {
		runtime.Gosched()
	}
}
