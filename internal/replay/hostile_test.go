package replay_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/trace"
)

var long = flag.Bool("long", false, "replay traces of gigabytes and of millions of receipts")

const countRule = "[rules]\nrule : [count] [uid=+] [time=60; count=5] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"

// repeated yields lines, each from a number, without holding them.
type repeated struct {
	n, i int
	line func(i int) string
	rest []byte
}

func (r *repeated) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.i == r.n {
			return 0, io.EOF
		}
		r.rest = []byte(r.line(r.i) + "\n")
		r.i++
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Replays of hostile traces need bounded memory, and what is printed of them is short and
// printable.
func TestHostileTracesNeedBoundedMemory(t *testing.T) {
	lines := 20
	if *long {
		lines = 60 // of a megabyte each
	}
	const most = trace.MaxLine - 200
	for name, line := range map[string]func(i int) string{
		"long values": func(i int) string {
			return fmt.Sprintf(`{"t":1770000000000,"params":{"uid":"\u001b[2J%d%s"}}`, i, strings.Repeat("v", most))
		},
		"many parameters": func(int) string { return `{"t":1770000000000,"params":{"uid":"7"` + many(most/12) + `}}` },
		"long answers": func(int) string {
			return `{"t":1770000000000,"params":{"uid":"7"},"answer":{"verdict":"allow","sets":[` + strings.Repeat(`{},`, most/4) + `{}]}}`
		},
		"times in any order": func(i int) string {
			return fmt.Sprintf(`{"t":%d,"params":{"uid":"7"}}`, []int64{1, 1 << 46, 1770000000000}[i%3])
		},
		"hits that overflow": func(int) string {
			return `{"t":1770000000000,"door":"ratelimit","hits":18446744073709551615,"params":{"uid":"7"}}`
		},
		"receipts that nobody gave": func(i int) string {
			return fmt.Sprintf(`{"t":1770000000000,"op":"settle","receipt":"r%d","hits":1000000000000000}`, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			report, err := replay.Run(t.Context(), replay.Options{
				Rules: parse(t, countRule, "", nil, nil), Trace: &repeated{n: lines, line: line}, Summarize: true,
			})
			if err != nil {
				t.Fatalf("%.500v", err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 20<<20 {
				t.Errorf("%d MB are held", held>>20)
			}
			if report.Calls != lines {
				t.Errorf("%d calls; want %d", report.Calls, lines)
			}
			for _, x := range report.Identities {
				if x.Hits < 0 {
					t.Errorf("%+v", x)
				}
			}
			var text strings.Builder
			report.WriteText(&text)
			if strings.ContainsAny(text.String(), "\x1b") || text.Len() > 8000 {
				t.Errorf("%d bytes: %.300q", text.Len(), text.String())
			}
			runtime.KeepAlive(report)
		})
	}
}

// many returns n parameters behind another.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"p%d":""`, i)
	}
	return b.String()
}

func TestHitsSaturate(t *testing.T) {
	line := func(int) string {
		return fmt.Sprintf(`{"t":1770000000000,"op":"update","hits":%d,"params":{"uid":"7"}}`, int64(1e15))
	}
	report, err := replay.Run(t.Context(), replay.Options{Rules: parse(t, countRule, "", nil, nil), Trace: &repeated{n: 10_000, line: line}, Summarize: true})
	if err != nil || len(report.Identities) != 1 || report.Identities[0].Hits != math.MaxInt64 {
		t.Fatalf("%+v, %v; want the largest number of hits", report, err)
	}
}

// The receipts of a trace are forgotten when they expire, and too many valid ones are an
// error that names the line.
func TestReceiptsOfATraceAreBounded(t *testing.T) {
	takes, apart := 30_000, int64(10)
	if *long {
		takes = 3_000_000
	}
	line := func(i int) string {
		return fmt.Sprintf(`{"t":%d,"receipt":"r%d","params":{"uid":"%d"}}`, 1770000000000+int64(i)*apart, i, i)
	}
	set := parse(t, strings.Replace(holdRule, "%d", "1", 1), "", nil, nil)
	inexact := ""
	report, err := replay.Run(t.Context(), replay.Options{
		Rules: set, Trace: &repeated{n: takes, line: line}, Summarize: true, OnInexact: func(reason string) { inexact = reason },
	})
	if err != nil || report.Allowed != takes || inexact != "" {
		t.Errorf("%+v, %v, %s; want all admitted", report, err, inexact)
	}
	// All at once: the store has no room for more than 100,000, which is said.
	takes, apart = 100_500, 0
	_, err = replay.Run(t.Context(), replay.Options{
		Rules: set, Trace: &repeated{n: takes, line: line}, Summarize: true, OnInexact: func(reason string) { inexact = reason },
	})
	if err != nil || !strings.Contains(inexact, "500 calls had no room for a receipt") {
		t.Errorf("%v, %q", err, inexact)
	}
}

// A compressed trace is read as it comes, however large it becomes, and one that ends early
// is an error that names the line.
func TestCompressedTraces(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, `{"t":1770000000000,"params":{"uid":"7"}}`+"\n")
	_, _ = z.Write(bytes.Repeat([]byte(" "), 50<<20)) // a line without an end
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	set := parse(t, countRule, "", nil, nil)
	for want, text := range map[string][]byte{
		"line 2: longer than 1048576 bytes; want one call per line": packed.Bytes(),
		"the compressed trace ends early; want the whole file":      cut(t),
	} {
		_, err := replay.Run(t.Context(), replay.Options{Rules: set, Trace: bytes.NewReader(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// cut returns the begin of a compressed trace of one line.
func cut(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, strings.Repeat(`{"t":1770000000000,"params":{"uid":"7"}}`+"\n", 100))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[:b.Len()-20]
}
