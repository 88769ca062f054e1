package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/koalagate/koalagate/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ruleText returns a valid rule file with rules of these numbers.
func ruleText(numbers ...int) string {
	var b strings.Builder
	b.WriteString("[rules]\n")
	for _, n := range numbers {
		fmt.Fprintf(&b, "rule : [direct] [act=a%d] [] [result=2; return=%d]\n", n, n)
	}
	b.WriteString("[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n")
	return b.String()
}

const badText = "[rules]\nrule : [cuont] [act=a] [] [result=2; return=1]\n"

// bench is a Reloader on a folder that loads only when reload is called.
type bench struct {
	*Reloader
	dir     string
	log     *bytes.Buffer
	applied []*rules.Set
	states  []State
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	return newBenchIn(t, t.TempDir(), text)
}

func newBenchIn(t *testing.T, dir, text string) *bench {
	t.Helper()
	b := &bench{dir: dir, log: new(bytes.Buffer)}
	b.write(t, text)
	now := time.Unix(1780286400, 0)
	b.Reloader = New(Options{
		Files:  Files{Paths: []string{b.path()}},
		Logger: slog.New(slog.NewTextHandler(b.log, nil)),
		Notify: func(s State) { b.states = append(b.states, s) },
		Clock:  func() time.Time { now = now.Add(time.Second); return now },
	})
	b.sleep = func(context.Context, time.Duration) bool { return true }
	if _, findings, err := b.First(); err != nil || findings.HasErrors() {
		t.Fatalf("%v, %v", findings, err)
	}
	return b
}

func (b *bench) path() string { return filepath.Join(b.dir, "rules.conf") }

func (b *bench) write(t *testing.T, text string) {
	t.Helper()
	write(t, b.path(), text)
}

// reload does what Run does on an event.
func (b *bench) reload() {
	b.load(context.Background(), func(s *rules.Set) { b.applied = append(b.applied, s) }, false)
}

func TestValidRulesBecomeActive(t *testing.T) {
	b := newBench(t, ruleText(1))
	b.write(t, ruleText(1, 2))
	b.reload()
	s := b.State()
	if len(b.applied) != 1 || len(b.applied[0].Rules) != 2 || s.Generation != 2 || s.Rules != 2 || s.Hash != b.applied[0].Hash || s.LastError != "" {
		t.Errorf("%d applied, state %+v", len(b.applied), s)
	}
	if !s.LoadedAt.Equal(time.Unix(1780286402, 0)) {
		t.Errorf("loaded at %v; want the time of the clock", s.LoadedAt)
	}
	if len(b.states) != 2 || b.states[1] != s {
		t.Errorf("notified of %+v; want the first state and this", b.states)
	}
}

func TestRenumberedRulesAreLoggedOnce(t *testing.T) {
	b := newBench(t, ruleText(1, 2))
	b.write(t, strings.ReplaceAll(ruleText(1, 2), "act=a1", "act=new"))
	b.reload()
	if strings.Contains(b.log.String(), "W019") {
		t.Errorf("a changed value is not a renumbering:\n%s", b.log)
	}
	b.write(t, strings.NewReplacer("act=a1", "act=a2", "act=a2", "act=new").Replace(ruleText(1, 2)))
	b.reload()
	b.reload()
	if n := strings.Count(b.log.String(), "warning W019: return=1 was the number of the rule that is now 2"); n != 1 || len(b.applied) != 2 {
		t.Errorf("logged %d times, %d applied; want the rules active and one line about them:\n%s", n, len(b.applied), b.log)
	}
}

func TestReloadKeepsOldRulesOnError(t *testing.T) {
	b := newBench(t, ruleText(1))
	before := b.State()
	b.write(t, badText)
	b.reload()
	b.write(t, badText) // touched, not changed
	b.reload()
	s := b.State()
	if len(b.applied) != 0 || s.Generation != before.Generation || s.Hash != before.Hash || s.LoadedAt != before.LoadedAt {
		t.Errorf("%d applied, state %+v", len(b.applied), s)
	}
	if !strings.Contains(s.LastError, "rules.conf:2:9: error") || s.LastErrorAt.IsZero() {
		t.Errorf("the last error is %q at %v", s.LastError, s.LastErrorAt)
	}
	if n := strings.Count(b.log.String(), "the rule files are invalid"); n != 1 {
		t.Errorf("logged %d times; want once per content:\n%s", n, b.log)
	}
	b.write(t, badText+"stray\n")
	b.reload()
	if n := strings.Count(b.log.String(), "the rule files are invalid"); n != 2 {
		t.Errorf("logged %d times; want a line for the changed content too:\n%s", n, b.log)
	}
}

func TestRestoringOldFilesClearsTheError(t *testing.T) {
	b := newBench(t, ruleText(1))
	b.write(t, badText)
	b.reload()
	b.write(t, ruleText(1))
	b.reload()
	if s := b.State(); s.LastError != "" || s.LastErrorAt.IsZero() || s.Generation != 1 || len(b.applied) != 0 {
		t.Errorf("%d applied, state %+v; want the same generation without error", len(b.applied), s)
	}
	b.write(t, badText)
	b.reload()
	if n := strings.Count(b.log.String(), "the rule files are invalid"); n != 2 {
		t.Errorf("logged %d times; want the same error logged again after it was fixed", n)
	}
}

func TestUnreadableFilesKeepOldRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(b *bench) error
	}{
		{"removed", func(b *bench) error { return os.Remove(b.path()) }},
		{"a folder in its place", func(b *bench) error {
			if err := os.Remove(b.path()); err != nil {
				return err
			}
			return os.Mkdir(b.path(), 0o700)
		}},
		{"emptied", func(b *bench) error { return os.Truncate(b.path(), 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, ruleText(1))
			if err := c.spoil(b); err != nil {
				t.Fatal(err)
			}
			b.reload()
			if s := b.State(); len(b.applied) != 0 || s.Generation != 1 || s.LastError == "" {
				t.Errorf("%d applied, state %+v", len(b.applied), s)
			}
		})
	}
}

func TestTruncatedFileNeverBecomesActive(t *testing.T) {
	text := ruleText(1, 2) + "[end]\n"
	b := newBench(t, text)
	b.options.Files.Rules.RequireEnd = true
	for n := range len(text) - 1 {
		b.write(t, text[:n])
		b.reload()
		if len(b.applied) != 0 {
			t.Fatalf("active although truncated to %d bytes:\n%s", n, text[:n])
		}
	}
}

func TestFileIsReadOnceItIsStable(t *testing.T) {
	b := newBench(t, ruleText(1))
	// The content that a slow writer has written by each check; every step is a
	// valid file.
	steps := []string{ruleText(1, 2), ruleText(1, 2, 3), ruleText(1, 2, 3, 4)}
	b.write(t, ruleText(9))
	b.sleep = func(context.Context, time.Duration) bool {
		if len(steps) > 0 {
			b.write(t, steps[0])
			steps = steps[1:]
		}
		return true
	}
	b.reload()
	if len(b.applied) != 1 || len(b.applied[0].Rules) != 4 {
		t.Errorf("%d generations; want only the complete file's", len(b.applied))
	}
}

func TestUnstableFileIsLeftForLater(t *testing.T) {
	b := newBench(t, ruleText(1))
	n := 1
	b.sleep = func(context.Context, time.Duration) bool {
		n++
		b.write(t, ruleText(n))
		return true
	}
	b.reload()
	if len(b.applied) != 0 || !b.last.changed() {
		t.Errorf("%d applied; want none, and the change still detectable", len(b.applied))
	}
}

func TestWordListsAreRelativeToRuleFileOrRoot(t *testing.T) {
	text := "[dicts]\nwords : words.dat\n" + strings.Replace(ruleText(1), "act=a1", "act @ words", 1)
	dir, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "rules.conf"), text)
	write(t, filepath.Join(dir, "words.dat"), "beside\n")
	write(t, filepath.Join(root, "words.dat"), "rooted\n")
	for _, c := range []struct{ name, root, word string }{
		{"beside the rule file", "", "beside"},
		{"under the root", root, "rooted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, findings, err := Files{Paths: []string{filepath.Join(dir, "rules.conf")}, DictRoot: c.root}.Load()
			if err != nil || findings.HasErrors() {
				t.Fatalf("%v, %v", findings, err)
			}
			var m rules.Matches
			set.Match(rules.MakeParams(map[string]string{"act": c.word}), &m)
			if len(m.List) != 1 {
				t.Errorf("%s is not in the list", c.word)
			}
		})
	}
	t.Run("a missing one is an error", func(t *testing.T) {
		_, findings, err := Files{Paths: []string{filepath.Join(dir, "rules.conf")}, DictRoot: "/does/not/exist"}.Load()
		if err != nil || !findings.HasErrors() {
			t.Errorf("%v, %v", findings, err)
		}
	})
}

func TestUnchangedWordListsAreNotParsedAgain(t *testing.T) {
	lists := "[dicts]\none : one.dat\ntwo : two.dat\n"
	rulesOf := func(n int) string {
		return lists + strings.Replace(ruleText(n, n+1), fmt.Sprintf("act=a%d", n), "act @ one; x !@ two", 1)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.dat"), "a\n")
	write(t, filepath.Join(dir, "two.dat"), strings.Repeat("long\n", maxSummed/5+1))
	b := newBenchIn(t, dir, rulesOf(1))
	b.write(t, rulesOf(3))
	b.reload()
	write(t, filepath.Join(dir, "one.dat"), "b\n")
	b.reload()
	if len(b.applied) != 2 {
		t.Fatalf("%d generations; want 2:\n%s", len(b.applied), b.log)
	}
	before, after := b.applied[0].Dicts, b.applied[1].Dicts
	if before["one"] == after["one"] || before["two"] != after["two"] {
		t.Errorf("one is the same: %v, two: %v; want the changed one alone parsed again", before["one"] == after["one"], before["two"] == after["two"])
	}
}

// TestRun replaces the files of a running Reloader in every way; only events of
// the operating system reveal the changes.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		replace func(t *testing.T, dir, path string)
	}{
		{"in place", func(t *testing.T, _, path string) { write(t, path, ruleText(2)) }},
		{"by rename", func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "new"), ruleText(2))
			if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed and written", func(t *testing.T, _, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, ruleText(2))
		}},
		{"by a link", func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "new"), ruleText(2))
			link(t, "new", path)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "rules.conf")
			write(t, path, ruleText(1))
			r := New(Options{Files: Files{Paths: []string{path}}, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
			if _, findings, err := r.First(); err != nil || findings.HasErrors() {
				t.Fatalf("%v, %v", findings, err)
			}
			number := runIn(t, r)
			c.replace(t, dir, path)
			waitFor(t, func() bool { return number.Load() == 2 })
		})
	}
}

// twoFolders returns a Reloader with rule 1 active from a file at path, and a file
// with rule 2 in another folder. The interval is too long to matter.
func twoFolders(t *testing.T) (r *Reloader, path, far string) {
	t.Helper()
	path, far = filepath.Join(t.TempDir(), "rules.conf"), filepath.Join(t.TempDir(), "far.conf")
	write(t, path, ruleText(1))
	write(t, far, ruleText(2))
	r = New(Options{Files: Files{Paths: []string{path}}, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if _, _, err := r.First(); err != nil {
		t.Fatal(err)
	}
	return r, path, far
}

func TestChangesBehindALinkAreDetected(t *testing.T) {
	r, path, far := twoFolders(t)
	number := runIn(t, r)
	link(t, far, path)
	waitFor(t, func() bool { return number.Load() == 2 })
	write(t, far, ruleText(3))
	waitFor(t, func() bool { return number.Load() == 3 })
}

// TestChangesBeforeAFolderIsWatchedAreDetected writes to a file between its
// first reading and the watch of its folder, to which a link leads.
func TestChangesBeforeAFolderIsWatchedAreDetected(t *testing.T) {
	r, path, far := twoFolders(t)
	r.options.Notify = func(s State) {
		if s.Generation == 3 {
			write(t, far, ruleText(3))
		}
	}
	number := runIn(t, r)
	write(t, path, ruleText(4)) // from now on Run itself has loaded the active rules
	waitFor(t, func() bool { return number.Load() == 4 })
	link(t, far, path)
	waitFor(t, func() bool { return number.Load() == 3 })
}

func TestIntervalsDetectChangesWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.conf")
	write(t, path, ruleText(1))
	r := New(Options{Files: Files{Paths: []string{path}}, Interval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if _, _, err := r.First(); err != nil {
		t.Fatal(err)
	}
	r.noEvents = true
	number := runIn(t, r)
	write(t, path, ruleText(2))
	waitFor(t, func() bool { return number.Load() == 2 })
}

// Checks take at most a twentieth of the time: here each takes two seconds or more.
func TestSlowChecksAreSpaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	write(t, path, ruleText(1))
	synctest.Test(t, func(t *testing.T) {
		now, log := time.Now(), new(bytes.Buffer)
		r := New(Options{
			Files: Files{Paths: []string{path}}, Interval: time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
			Clock: func() time.Time { now = now.Add(2 * time.Second); return now },
		})
		if _, _, err := r.First(); err != nil {
			t.Fatal(err)
		}
		r.noEvents = true
		number := runIn(t, r)
		synctest.Wait() // the first check is over
		write(t, path, ruleText(2))
		time.Sleep(39 * time.Second)
		if number.Load() != 0 {
			t.Error("the files were checked again before 40 s")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if number.Load() != 2 {
			t.Error("the files were not checked after 41 s")
		}
		if n := strings.Count(log.String(), "checking them less often"); n != 1 {
			t.Errorf("%d lines about it; want 1:\n%s", n, log)
		}
	})
}

// Events of another file in a folder of rule files do not cause one check after the other:
// here each check takes an hour by the clock, and the next event waits for longer.
func TestEventsOfOtherFilesAreSpaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.conf")
	write(t, path, ruleText(1))
	var readings atomic.Int64 // of the clock: two in a check, and one for an event that causes one
	begin := time.Now()
	r := New(Options{
		Files: Files{Paths: []string{path}}, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return begin.Add(time.Hour * time.Duration(readings.Add(1))) },
	})
	if _, _, err := r.First(); err != nil {
		t.Fatal(err)
	}
	first := readings.Load()
	runIn(t, r)
	waitFor(t, func() bool { return readings.Load() == first+2 })
	for range 20 {
		write(t, filepath.Join(dir, "notes"), "x")
		time.Sleep(5 * gatherDelay / 10)
	}
	waitFor(t, func() bool { return readings.Load() >= first+3 })
	if n := readings.Load() - first; n != 3 {
		t.Errorf("%d readings of the clock; want 3: one check, and an event that waits", n)
	}
}

func TestTriggerLoadsAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.conf")
	write(t, path, ruleText(1))
	r := New(Options{Files: Files{Paths: []string{path}}, Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if _, _, err := r.First(); err != nil {
		t.Fatal(err)
	}
	r.noEvents = true
	number := runIn(t, r)
	write(t, path, ruleText(2))
	for range 3 {
		r.Trigger()
	}
	waitFor(t, func() bool { return number.Load() == 2 })
}

// runIn runs r until the test ends. It returns the number of the first active
// rule.
func runIn(t *testing.T, r *Reloader) *atomic.Int64 {
	t.Helper()
	var number atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, func(s *rules.Set) { number.Store(s.Rules[0].Return) })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return &number
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("the new rules are not active after 20 s")
		}
	}
}
