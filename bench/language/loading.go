package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/bench/report"
)

// promised is the number of rules that have a goal.
const promised = 100_000

// loading parses many rules.
func (r *run) loading(_ context.Context, s *report.Section) error {
	table := report.Table{Columns: []string{"rules", "s", "s of CPU", "MB"}}
	most := 0.0
	for _, one := range []struct {
		kind
		number int
	}{
		{kinds[0], promised},
		{kind{"words, counters and blocks", func(i int) string { return fmt.Sprintf("act=act%d; uid=+; ip=10.%d.%d.0/24", i, i>>8&255, i&255) }, "", ""}, promised},
		{kinds[0], r.rules},
	} {
		text := one.ruleText(one.number)
		before, start := heap(), time.Now()
		used := cpuTime()
		set, err := parse(text)
		if err != nil {
			return err
		}
		took, cpu := time.Since(start), cpuTime()-used
		if one.number == promised {
			most = max(most, cpu.Seconds())
		}
		table.Rows = append(table.Rows, []string{
			strconv.Itoa(one.number) + " of " + one.name, fmt.Sprintf("%.2f", took.Seconds()), fmt.Sprintf("%.2f", cpu.Seconds()), strconv.FormatUint((heap()-before)>>20, 10),
		})
		runtime.KeepAlive(set)
	}
	s.Tables = []report.Table{table}
	r.FigureIn(" s of CPU", "100,000 rules, loaded in", once(most))
	return nil
}
