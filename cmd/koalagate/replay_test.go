package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// recorded is a scenario of the conformance files, whose steps are lines of a
// trace as they stand.
type recorded struct {
	Name     string              `json:"name"`
	Timezone string              `json:"timezone"`
	Dicts    map[string][]string `json:"dicts"`
	Rules    string              `json:"rules"`
	Steps    []json.RawMessage   `json:"steps"`
}

// TestReplayAnswersTheConformanceCases asks the cases of the contract through
// the command: every answer is the one wanted, and no other.
func TestReplayAnswersTheConformanceCases(t *testing.T) {
	server := storetest.StartServer(t)
	stores := map[string]string{"memory": "memory", "redis": server.URL()}
	for _, file := range []string{"named", "random"} {
		text, err := os.ReadFile("../../engine/testdata/" + file + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var r recorded
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			for name, url := range stores {
				t.Run(file+"/"+r.Name+"/"+name, func(t *testing.T) { r.replay(t, url) })
			}
		}
	}
	mustBeEmpty(t, server)
}

func (r *recorded) replay(t *testing.T, url string) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.conf"), r.Rules)
	for name, entries := range r.Dicts {
		write(t, filepath.Join(dir, name+".dat"), strings.Join(entries, "\n"))
	}
	trace := new(bytes.Buffer)
	for _, step := range r.Steps {
		trace.Write(append(step, '\n'))
	}
	out, complaints := new(bytes.Buffer), new(bytes.Buffer)
	p := program{
		args:  []string{"replay", "--rules", filepath.Join(dir, "rules.conf"), "--timezone", r.Timezone, "--store", url, "-"},
		stdin: trace, stdout: out, stderr: complaints,
	}
	if code := p.run(); code != exitOK {
		t.Fatalf("exit code %d: %s", code, complaints)
	}
	answers := bytes.SplitAfter(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(answers) != len(r.Steps) {
		t.Fatalf("%d answers to %d lines", len(answers), len(r.Steps))
	}
	for i, step := range r.Steps {
		var asked struct{ Want any }
		var got any
		if err := json.Unmarshal(step, &asked); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answers[i], &got); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if diff := cmp.Diff(asked.Want, got); diff != "" {
			t.Fatalf("answer %d (-want +got):\n%s", i, diff)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const oneRule = `[rules]
rule : [leak] [uid=+] [time=86400; count=1000;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// TestReplayLeavesNothingInRedis ends replays in every way that there is.
func TestReplayLeavesNothingInRedis(t *testing.T) {
	server := storetest.StartServer(t)
	rules := filepath.Join(t.TempDir(), "rules.conf")
	write(t, rules, oneRule)
	calls := new(strings.Builder)
	for i := range 300 { // enough for a log of the counter
		fmt.Fprintf(calls, `{"t":%d,"params":{"uid":"7"}}`+"\n", 1780286400000+i)
	}
	silent, writer := io.Pipe()
	defer writer.Close()
	for name, c := range map[string]struct {
		trace     io.Reader
		interrupt bool
		answers   int
		complaint string
	}{
		"at its end":       {strings.NewReader(calls.String()), false, 300, ""},
		"by a bad line":    {strings.NewReader(calls.String() + "{"), false, 300, "line 301: the JSON object is cut off"},
		"by an interrupt":  {io.MultiReader(strings.NewReader(calls.String()), silent), true, 300, "interrupted"},
		"before its begin": {strings.NewReader(""), false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out := &counting{lines: c.answers, reached: func() {
				if keys := keysOf(t, server); c.answers > 0 && len(keys) == 0 {
					t.Error("nothing is in Redis while it replays")
				}
				if c.interrupt {
					cancel()
				}
			}}
			p := program{stdin: c.trace, stdout: out, stderr: io.Discard}
			complaint := ""
			if err := p.replay(ctx, &replaying{files: reload.Files{Paths: []string{rules}}, store: server.URL(), prefix: "a*[b]?", trace: "-"}); err != nil {
				complaint = err.Error()
			}
			if complaint != c.complaint || out.seen != c.answers {
				t.Errorf("%d answers, %q; want %d, %q", out.seen, complaint, c.answers, c.complaint)
			}
			mustBeEmpty(t, server)
		})
	}
}

// counting counts lines, and calls reached at the last one.
type counting struct {
	seen, lines int
	reached     func()
}

func (c *counting) Write(b []byte) (int, error) {
	before := c.seen
	c.seen += bytes.Count(b, []byte("\n"))
	if before < c.lines && c.seen >= c.lines {
		c.reached()
	}
	return len(b), nil
}

func keysOf(t *testing.T, server *storetest.Server) []string {
	t.Helper()
	client := server.Client()
	defer client.Close()
	keys, err := client.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func mustBeEmpty(t *testing.T, server *storetest.Server) {
	t.Helper()
	if keys := keysOf(t, server); len(keys) > 0 {
		t.Errorf("%d keys are left: %.3q", len(keys), keys)
	}
}

// TestHeaviestTakesBoundedMemory has far more identities than room, and finds
// the heavy ones.
func TestHeaviestTakesBoundedMemory(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.conf")
	write(t, rules, oneRule)
	in, out := io.Pipe()
	go func() {
		for i := range 60_000 {
			uid := strconv.Itoa(i)
			if i%10 == 0 {
				uid = []string{"ann", "bob"}[i/10%3/2]
			}
			fmt.Fprintf(out, `{"t":%d,"params":{"uid":%q}}`+"\n", 1780286400000+i, uid)
		}
		out.Close()
	}()
	printed := new(bytes.Buffer)
	p := program{args: []string{"replay", "--rules", rules, "--summary", "-"}, stdin: in, stdout: printed, stderr: printed}
	if code := p.run(); code != exitOK {
		t.Fatal(printed)
	}
	_, list, _ := strings.Cut(printed.String(), "heaviest identities\n")
	lines := strings.Split(list, "\n")
	if len(lines) < 3 || !strings.Contains(lines[1], "4000  ") || !strings.HasSuffix(lines[1], "uid=ann") || !strings.HasSuffix(lines[2], "uid=bob") {
		t.Errorf("want ann with 4000 hits and bob first:\n%s", printed)
	}
}
