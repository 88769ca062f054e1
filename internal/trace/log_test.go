package trace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const ruleFile = `[rules]
rule : [direct] [uid=black] [time=1; count=0;] [result=2; return=100]
rule : [count] [uid=+] [time=60; count=2;] [result=2; return=201; name=asks]
rule : [leak] [uid=+] [time=60; count=1;] [result=2; return=202; shadow=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// file is the output of a log. Writing fails once it is closed.
type file struct {
	mu     sync.Mutex
	text   bytes.Buffer
	fault  error
	closed bool
}

func (f *file) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		return 0, f.fault
	}
	if f.closed {
		return 0, errors.New("closed")
	}
	return f.text.Write(b)
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *file) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// logging returns an engine whose decisions are logged to files, and to the next
// one after each Reopen.
func logging(t *testing.T, o trace.LogOptions, files ...*file) (*engine.Engine, *trace.Log) {
	t.Helper()
	return loggingTo(t, o, &files)
}

func loggingTo(t *testing.T, o trace.LogOptions, files *[]*file) (*engine.Engine, *trace.Log) {
	t.Helper()
	o.Open = func() (io.WriteCloser, error) {
		if len(*files) == 0 {
			return nil, errors.New("no more files")
		}
		f := (*files)[0]
		*files = (*files)[1:]
		return f, nil
	}
	if o.Mask == nil {
		o.Mask = trace.NewMask([]string{trace.ShowAll})
	}
	l, err := trace.NewLog(o)
	if err != nil {
		t.Fatal(err)
	}
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleFile)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	m := memory.New(memory.Options{})
	t.Cleanup(m.Close)
	return engine.New(set, wiring.CountIn(m), engine.Observe(l.Observe)), l
}

func params(pairs ...string) *rules.Params {
	p := new(rules.Params)
	for i := 0; i < len(pairs); i += 2 {
		p.Set(pairs[i], pairs[i+1])
	}
	return p
}

func take(t *testing.T, e *engine.Engine, at int64, pairs ...string) {
	t.Helper()
	call := &engine.Call{Door: "test", Op: engine.Take, Now: at, Inputs: []engine.Input{{Params: params(pairs...), Hits: 1}}}
	if _, err := e.Decide(context.Background(), call); err != nil {
		t.Fatal(err)
	}
}

func closeLog(t *testing.T, l *trace.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestReplayedLogGivesTheRecordedAnswers logs calls of every form and decides
// them again.
func TestReplayedLogGivesTheRecordedAnswers(t *testing.T) {
	f := new(file)
	e, l := logging(t, trace.LogOptions{}, f)
	calls := []*engine.Call{
		{Op: engine.Take, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 1}}},
		{Op: engine.Take, Inputs: []engine.Input{{Params: params("uid", "black"), Hits: 1}}},
		{Op: engine.Take, Inputs: []engine.Input{{Params: params(), NoHits: true}}},
		{Op: engine.Take, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 1}, {Params: params("uid", "8"), Hits: 2}}},
		{Op: engine.Take, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 1, Refund: true}, {Params: params("uid", "9"), Hits: 1}}},
		{Op: engine.Update, Inputs: []engine.Input{{Params: params("uid", "\x00\"}\n{\u2028\\<é"), Hits: 1 << 31}}},
		{Op: engine.Browse, Inputs: []engine.Input{{Params: params("uid", "\x00\"}\n{\u2028\\<é"), Hits: 1}}},
		{Op: engine.Update, Inputs: []engine.Input{{Params: params("uid", "\xff"), Hits: 1 << 31}}},
		{Op: engine.Browse, Inputs: []engine.Input{{Params: params("uid", "\xfe"), Hits: 1}}},
		{Op: engine.Browse, Inputs: []engine.Input{{Params: params("uid", "\xff"), Hits: 1}}},
		{Op: engine.Take, Inputs: []engine.Input{{Params: params("k", "v"), Hits: 3, Override: &engine.Override{Count: 2, Seconds: 60, Entries: []string{"k", "v"}}}}},
		{Op: engine.Refund, Erase: 1, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 1}}},
		{Op: engine.Complete, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 9}}},
		{Op: engine.CompleteTake, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 1}}},
		{Op: engine.Reset, Rule: 201, Inputs: []engine.Input{{Params: params("uid", "7")}}},
		{Op: engine.Take, Inputs: []engine.Input{{Params: params("uid", "7"), Hits: 2}}},
	}
	for i, c := range calls {
		c.Now = 1_780_286_400_000 + int64(i)
		if _, err := e.Decide(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, l)

	again, l := logging(t, trace.LogOptions{}, new(file))
	defer closeLog(t, l)
	lines := trace.NewReader(strings.NewReader(f.String()))
	for i := range calls {
		line, err := lines.Next()
		if err != nil {
			t.Fatal(err)
		}
		c := line.Call()
		d, err := again.Decide(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(trace.AppendAnswer(nil, c.Op, d, line.Several())); got != string(line.Recorded()) || c.Op != calls[i].Op {
			t.Errorf("call %d: %s, recorded %s", i, got, line.Recorded())
		}
	}
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after %d calls: %v", len(calls), err)
	}
}

func TestLogOmitsCallsWithoutDecision(t *testing.T) {
	f := new(file)
	e, l := logging(t, trace.LogOptions{}, f)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	input := []engine.Input{{Params: params("uid", "7"), Hits: 1}}
	for _, c := range []*engine.Call{
		{Op: engine.Take, Inputs: input},
		{Op: engine.Take, Fault: errors.New("no parameters")},
	} {
		if _, err := e.Decide(ctx, c); err == nil {
			t.Error("the call was decided")
		}
	}
	if _, err := e.Decide(context.Background(), &engine.Call{Op: engine.Peek, Rule: 201, Inputs: input}); err != nil {
		t.Error(err)
	}
	closeLog(t, l)
	if f.String() != "" || !f.closed {
		t.Errorf("written: %s; closed: %v", f.String(), f.closed)
	}
}

func TestLinesAreWrittenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(file)
		e, l := logging(t, trace.LogOptions{}, f)
		take(t, e, 1, "uid", "7")
		synctest.Wait()
		if f.String() != "" {
			t.Error("a line was written immediately")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := strings.Count(f.String(), "\n"); n != 1 {
			t.Errorf("%d lines after a second", n)
		}
		long := strings.Repeat("x", 1<<16)
		for range 4 {
			take(t, e, 1, "uid", long)
		}
		synctest.Wait()
		if n := strings.Count(f.String(), "\n"); n != 5 {
			t.Errorf("%d lines when the buffer is large", n)
		}
		closeLog(t, l)
	})
}

// TestLogCountsDroppedLines uses a full disk, and then a stalled one.
func TestLogCountsDroppedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{fault: errors.New("no space left")}
		var dropped []int64
		var faults []error
		e, l := logging(t, trace.LogOptions{OnDropped: func(n int64, fault error) { dropped, faults = append(dropped, n), append(faults, fault) }}, f)
		take(t, e, 1, "uid", "7")
		time.Sleep(2 * time.Second) // one to write, one to report
		synctest.Wait()
		if !slices.Equal(dropped, []int64{1}) || !errors.Is(faults[0], f.fault) {
			t.Errorf("dropped %v with %v, want the one line", dropped, faults)
		}
		f.mu.Lock() // Write blocks
		f.fault = nil
		long := strings.Repeat("x", 1<<19)
		for range 40 {
			take(t, e, 1, "uid", long)
		}
		take(t, e, 1, "uid", strings.Repeat("x", trace.MaxLine)) // too long for Reader
		f.mu.Unlock()
		closeLog(t, l)
		written := strings.Count(f.String(), "\n")
		if len(dropped) != 2 || written < 7 || written > 16 || int64(written)+dropped[1] != 41 {
			t.Errorf("%d lines written, %v dropped; want 7 to 16 written, and 41 in total", written, dropped)
		}
	})
}

// hanging is a disk that stalls until free is closed.
type hanging struct {
	file
	free chan struct{}
}

func (h *hanging) Write(b []byte) (int, error) {
	<-h.free
	return h.file.Write(b)
}

// TestStalledDiskDelaysNothing checks that lost lines are reported every second,
// that decisions do not wait, and that Close waits five seconds only.
func TestStalledDiskDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &hanging{free: make(chan struct{})}
		dropped, calls := int64(0), 0
		l, err := trace.NewLog(trace.LogOptions{
			Open: func() (io.WriteCloser, error) { return disk, nil }, Every: 1, Mask: trace.NewMask([]string{trace.ShowAll}),
			OnDropped: func(n int64, _ error) { dropped, calls = dropped+n, calls+1 },
		})
		if err != nil {
			t.Fatal(err)
		}
		call := &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: params("uid", strings.Repeat("x", 1<<18)), Hits: 1}}}
		decision := &engine.Decision{At: 1, Answers: []engine.Answer{{Result: &rules.Result{}, Retry: -1}}}
		begin := time.Now()
		const seconds, lines = 5, 20
		for range seconds {
			for range lines {
				l.Observe(call, decision, nil)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		// 4 MiB of lines are pending, and up to 4 MiB are being written.
		if took := time.Since(begin); took != seconds*time.Second || calls < seconds-2 || dropped < lines*seconds-32 {
			t.Errorf("after %v %d lines reported in %d calls", took, dropped, calls)
		}
		if err := l.Close(); err == nil || time.Since(begin) > (seconds+6)*time.Second {
			t.Errorf("Close took %v and returned %v; want an error after five seconds", time.Since(begin)-seconds*time.Second, err)
		}
		if dropped != lines*seconds {
			t.Errorf("%d lines reported; want all %d", dropped, lines*seconds)
		}
		close(disk.free)
	})
}

// filling is a disk with a number of free bytes.
type filling struct {
	file
	space int
}

func (f *filling) Write(b []byte) (int, error) {
	n := min(len(b), f.space)
	f.space -= n
	_, _ = f.file.Write(b[:n])
	if n < len(b) {
		return n, errors.New("no space left")
	}
	return n, nil
}

// TestFullDiskTruncatesNoLine frees space in small amounts, so that the disk fills
// within lines. All written lines must be complete, and the others reported.
func TestFullDiskTruncatesNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &filling{space: 100}
		dropped := int64(0)
		l, err := trace.NewLog(trace.LogOptions{
			Open: func() (io.WriteCloser, error) { return disk, nil }, Every: 1, Mask: trace.NewMask([]string{trace.ShowAll}),
			OnDropped: func(n int64, _ error) { dropped += n },
		})
		if err != nil {
			t.Fatal(err)
		}
		call := &engine.Call{Op: engine.Take, Now: 1, Inputs: []engine.Input{{Params: params("uid", strings.Repeat("x", 50)), Hits: 1}}}
		decision := &engine.Decision{At: 1, Answers: []engine.Answer{{Result: &rules.Result{}, Retry: -1}}}
		const rounds, lines = 60, 5
		for range rounds {
			for range lines {
				l.Observe(call, decision, nil)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			disk.space += 70
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		text := disk.String()
		text = text[:strings.LastIndexByte(text, '\n')+1] // the last line may be incomplete
		in := trace.NewReader(strings.NewReader(text))
		written := int64(0)
		for {
			_, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, disk.String())
			}
			written++
		}
		if written < rounds*70/150 || written+dropped != rounds*lines {
			t.Errorf("%d lines written and %d reported; want %d in total", written, dropped, rounds*lines)
		}
	})
}

func TestReopenSwitchesFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := new(file), new(file), new(file)
		more := &[]*file{first, second}
		var faults []error
		e, l := loggingTo(t, trace.LogOptions{OnDropped: func(_ int64, fault error) { faults = append(faults, fault) }}, more)
		take(t, e, 1, "uid", "first")
		l.Reopen()
		synctest.Wait()
		take(t, e, 1, "uid", "second")
		l.Reopen() // fails: there is no third file yet
		synctest.Wait()
		take(t, e, 1, "uid", "third")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		*more = append(*more, third)
		take(t, e, 1, "uid", "fourth")
		closeLog(t, l)
		if !strings.Contains(first.String(), "first") || !strings.Contains(second.String(), "second") || !first.closed || !second.closed {
			t.Errorf("first: %s\nsecond: %s", first.String(), second.String())
		}
		if len(faults) == 0 || faults[0] == nil {
			t.Errorf("the third line was lost; reported errors: %v", faults)
		}
		if strings.Contains(third.String(), "third") || !strings.Contains(third.String(), "fourth") {
			t.Errorf("the third file has: %s", third.String())
		}
	})
}

func TestLogSamples(t *testing.T) {
	f := new(file)
	e, l := logging(t, trace.LogOptions{Every: 10}, f)
	for range 5000 {
		take(t, e, 1, "uid", "7")
	}
	closeLog(t, l)
	if n := strings.Count(f.String(), "\n"); n < 350 || n > 650 { // 7 standard deviations
		t.Errorf("%d of 5000 lines written; want about 500", n)
	}
}

func TestMaskReplacesValues(t *testing.T) {
	for _, c := range []struct {
		setting []string
		want    string
	}{
		{[]string{trace.ShowAll}, `{"door":"test","act":"ask","uid":"ann","empty":""}`},
		{[]string{"act", "nobody"}, `{"door":"test","act":"ask","uid":"#","empty":""}`},
		{[]string{trace.ShowNone}, `{"door":"test","act":"#","uid":"#","empty":""}`},
	} {
		f := new(file)
		e, l := logging(t, trace.LogOptions{Mask: trace.NewMask(c.setting)}, f)
		take(t, e, 1, "door", "test", "act", "ask", "uid", "ann", "empty", "")
		take(t, e, 1, "door", "test", "act", "ask", "uid", "ann", "empty", "")
		take(t, e, 1, "door", "test", "act", "ask", "uid", "bob", "empty", "")
		closeLog(t, l)
		text := f.String()
		var shown []string
		for line := range strings.Lines(text) {
			_, line, _ = strings.Cut(line, `"params":`)
			line, _, _ = strings.Cut(line, `,"hits"`)
			shown = append(shown, line)
		}
		if shown[0] != shown[1] || shown[0] == shown[2] {
			t.Errorf("%v: equal values must stay equal and different values different: %q", c.setting, shown)
		}
		if got := pseudonym.ReplaceAllString(shown[0], `"#"`); got != c.want {
			t.Errorf("%v: %s, want %s", c.setting, got, c.want)
		}
	}
}
