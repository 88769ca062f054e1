package rules

import "runtime"

// breathe lets decisions that wait for a processor go first, at every 64th
// step. A rule set is made beside them: without it, on a machine of two
// processors, their 99th percentile grows threefold and more while 10,000
// rules are read.
func breathe(step int) {
	if step%64 == 0 {
		runtime.Gosched()
	}
}
