package rules

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// tableText is a table of customers as an io.Reader.
type tableText struct {
	n, last int
	rest    []byte
}

// Read reads the next rows of the table.
func (t *tableText) Read(b []byte) (written int, err error) {
	for written < len(b) {
		if len(t.rest) == 0 {
			if t.n > t.last {
				return written, io.EOF
			}
			if t.n == 0 {
				t.rest = append(t.rest, "tenant,rate,burst,month,tier\n"...)
			} else {
				t.rest = fmt.Appendf(t.rest, "%s,%d,%d,%d,gold\n", tenantKey(t.n), t.n%1000, t.n%50+1, t.n*1000)
			}
			t.n++
		}
		n := copy(b[written:], t.rest)
		t.rest, written = t.rest[n:], written+n
	}
	return written, nil
}

func tenantKey(n int) string { return "tenant-" + strconv.Itoa(10_000_000+n) }

// BenchmarkTable measures the time to load a table, the memory of a row besides its text,
// and the CPU time of a threshold of a request.
func BenchmarkTable(b *testing.B) {
	const rows = 1_000_000
	before, start := heapInUse(), cpuTime()
	table, err := ParseTable("plans.csv", &tableText{last: rows})
	if err != nil {
		b.Fatal(err)
	}
	load := cpuTime() - start
	memory := heapInUse() - before
	text := 0
	for key, row := range table.rows.All() {
		text += len(key)
		for i := range table.columns {
			text += len(row.Cell(i))
		}
	}
	threshold := Threshold{Table: "plans", Column: "month", Param: "tenant", most: maxCount, table: table, cell: table.places["month"]}
	const probes = 1 << 20 // so many that their slots are not in a cache
	keys := make([]value, probes)
	for i := range keys {
		keys[i].text = tenantKey(1 + rand.IntN(rows))
	}
	var best time.Duration
	for round := range 11 {
		start := cpuTime()
		for i := range keys {
			if _, given := threshold.value(&keys[i]); !given {
				b.Fatal("a row is not found")
			}
		}
		if took := cpuTime() - start; round == 0 || took < best {
			best = took
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(best)/probes, "ns/hit")
	b.ReportMetric(load.Seconds(), "s/load")
	b.ReportMetric((float64(memory)-float64(text))/rows, "bytes/row")
	runtime.KeepAlive(table)
}
