package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// loading parses many rules.
func loading(context.Context) ([]figure, error) {
	var figures []figure
	for _, k := range []kind{
		kinds[0],
		{"words, counters and blocks", func(i int) string { return fmt.Sprintf("act=act%d; uid=+; ip=10.%d.%d.0/24", i, i>>8&255, i&255) }, "", ""},
	} {
		for _, n := range []int{100_000, 1_000_000} {
			text := k.ruleText(n)
			before, start := heap(), time.Now()
			used := cpuTime()
			set, err := parse(text)
			if err != nil {
				return nil, err
			}
			took, cpu := time.Since(start), cpuTime()-used
			f := figure{
				what: fmt.Sprintf("%d rules of %s", n, k.name),
				got:  fmt.Sprintf("%.2f s, %.2f s of CPU time, %d MB", took.Seconds(), cpu.Seconds(), (heap()-before)>>20),
			}
			if n == 100_000 {
				f.goal, f.met = "< 2 s", cpu < 2*time.Second
			}
			figures = append(figures, f)
			runtime.KeepAlive(set)
		}
	}
	return figures, nil
}
