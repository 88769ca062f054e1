package replay_test

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
	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

func TestMain(m *testing.M) {
	redisconn.LogClient(func(string) {}) // the errors of calls report the same failures
	os.Exit(m.Run())
}

// scenario is a case of the conformance files; its steps are lines of a trace.
type scenario struct {
	Name     string              `json:"name"`
	Timezone string              `json:"timezone"`
	Dicts    map[string][]string `json:"dicts"`
	Tables   map[string]string   `json:"tables"`
	Rules    string              `json:"rules"`
	Steps    []json.RawMessage   `json:"steps"`
}

func TestReplayAnswersTheConformanceCases(t *testing.T) {
	server := storetest.StartServer(t)
	stores := map[string]string{"memory": sandbox.Memory, "redis": server.URL()}
	for _, file := range []string{"named", "random", "second"} {
		text, err := os.ReadFile("../../engine/testdata/" + file + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var s scenario
			if err := json.Unmarshal(line, &s); err != nil {
				t.Fatal(err)
			}
			for name, url := range stores {
				if file == "second" && name != "memory" {
					continue // the engine answers these by Redis in its own test
				}
				t.Run(file+"/"+s.Name+"/"+name, func(t *testing.T) { s.replay(t, url) })
			}
		}
	}
	wantNoKeys(t, server)
}

func (s *scenario) replay(t *testing.T, url string) {
	trace := new(bytes.Buffer)
	for _, step := range s.Steps {
		trace.Write(append(step, '\n'))
	}
	out := new(bytes.Buffer)
	_, err := replay.Run(t.Context(), replay.Options{
		Rules: parse(t, s.Rules, s.Timezone, s.Dicts, s.Tables), Trace: trace, Counters: sandbox.Options{Store: url}, Answers: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	answers := bytes.SplitAfter(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(answers) != len(s.Steps) {
		t.Fatalf("%d answers to %d lines", len(answers), len(s.Steps))
	}
	for i, step := range s.Steps {
		var recorded struct{ Want any }
		var got any
		if err := json.Unmarshal(step, &recorded); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answers[i], &got); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if diff := cmp.Diff(recorded.Want, got); diff != "" {
			t.Fatalf("answer %d (-want +got):\n%s", i, diff)
		}
	}
}

// parse loads rules from a file, with word lists and tables next to it.
func parse(t *testing.T, text, timezone string, dicts map[string][]string, tables map[string]string) *rules.Set {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.conf", text)
	for name, entries := range dicts {
		write(name+".dat", strings.Join(entries, "\n"))
	}
	for name, text := range tables {
		write(name+".csv", text)
	}
	set, findings, err := reload.Files{Paths: []string{filepath.Join(dir, "rules.conf")}, Rules: rules.Options{Timezone: timezone}}.Load()
	if err != nil || findings.HasErrors() {
		t.Fatalf("%v %v", err, findings)
	}
	return set
}

const oneRule = `[rules]
rule : [leak] [uid=+] [time=86400; count=1000;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// TestReplayLeavesNoKeysInRedis ends replays in every possible way.
func TestReplayLeavesNoKeysInRedis(t *testing.T) {
	server := storetest.StartServer(t)
	set := parse(t, oneRule, "", nil, nil)
	calls := new(strings.Builder)
	for i := range 300 { // enough for the counter to keep a log
		fmt.Fprintf(calls, `{"t":%d,"params":{"uid":"7"}}`+"\n", 1780286400000+i)
	}
	silent, writer := io.Pipe()
	defer writer.Close()
	for name, c := range map[string]struct {
		trace     io.Reader
		interrupt bool
		answers   int
		fault     string
	}{
		"at the end of the trace": {strings.NewReader(calls.String()), false, 300, ""},
		"at an invalid line":      {strings.NewReader(calls.String() + "{"), false, 300, "line 301: incomplete JSON object"},
		"when interrupted":        {io.MultiReader(strings.NewReader(calls.String()), silent), true, 300, "interrupted"},
		"with an empty trace":     {strings.NewReader(""), false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out := &lineCounter{want: c.answers, reached: func() {
				if keys := keysOf(t, server); c.answers > 0 && len(keys) == 0 {
					t.Error("Redis has no keys during the replay")
				}
				if c.interrupt {
					cancel()
				}
			}}
			fault := ""
			if _, err := replay.Run(ctx, replay.Options{
				Rules: set, Trace: c.trace, Answers: out, Counters: sandbox.Options{Store: server.URL(), RedisPrefix: "a*[b]?"},
			}); err != nil {
				fault = err.Error()
			}
			if fault != c.fault || out.lines != c.answers {
				t.Errorf("%d answers, %q; want %d, %q", out.lines, fault, c.answers, c.fault)
			}
			wantNoKeys(t, server)
		})
	}
}

// lineCounter counts lines and calls reached after the last one.
type lineCounter struct {
	lines, want int
	reached     func()
}

func (c *lineCounter) Write(b []byte) (int, error) {
	before := c.lines
	c.lines += bytes.Count(b, []byte("\n"))
	if before < c.want && c.lines >= c.want {
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

func wantNoKeys(t *testing.T, server *storetest.Server) {
	t.Helper()
	if keys := keysOf(t, server); len(keys) > 0 {
		t.Errorf("%d keys are left: %.3q", len(keys), keys)
	}
}

// TestTopIdentitiesInBoundedMemory replays far more identities than are tracked.
func TestTopIdentitiesInBoundedMemory(t *testing.T) {
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
	report, err := replay.Run(t.Context(), replay.Options{Rules: parse(t, oneRule, "", nil, nil), Trace: in, Summarize: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Identities) != 10 {
		t.Fatalf("%d identities; want 10", len(report.Identities))
	}
	for i, want := range []struct {
		uid  string
		hits int64
	}{{"ann", 4000}, {"bob", 2000}} {
		got := report.Identities[i]
		if got.Hits-got.Excess > want.hits || got.Hits < want.hits || got.Identity[0].Value != want.uid {
			t.Errorf("identity %d is %+v; want %s with %d hits", i, got, want.uid, want.hits)
		}
	}
	if ann := report.Identities[0]; ann.Hits != 4000 || ann.Excess != 0 {
		t.Errorf("%+v; want exactly 4000 hits", ann)
	}
}

func TestReplayReportsMaskedParamsOfThresholds(t *testing.T) {
	const text = "[rules]\nrule : [count] [uid=+] [time=60; count=param quota else 5] [result=2; return=7]\n" +
		"[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if set == nil {
		t.Fatal(findings)
	}
	var got []replay.MaskedParam
	if _, err := replay.Run(t.Context(), replay.Options{
		Rules: set, Trace: strings.NewReader(`{"t":1780286400000,"params":{"quota":"#0123456789abcdef","uid":"#0123456789abcdef"}}` + "\n"),
		OnMasked: func(m replay.MaskedParam) { got = append(got, m) },
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]replay.MaskedParam{{Line: 1, Name: "quota", Rule: 7}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReplayReportsMaskedParamsOnce(t *testing.T) {
	set := parse(t, "[rules]\nrule : [count] [act=ask; uid=+; size>3] [time=2; count=1;] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n", "", nil, nil)
	const masked = `{"t":1780286400000,"params":{"act":"#0123456789abcdef","uid":"#0123456789abcdef"}}` + "\n"
	var got []replay.MaskedParam
	_, err := replay.Run(t.Context(), replay.Options{
		Rules: set, Trace: strings.NewReader("\n" + masked + masked),
		OnMasked: func(m replay.MaskedParam) { got = append(got, m) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]replay.MaskedParam{{Line: 2, Name: "act", Rule: 201}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplayCountsDifferences(t *testing.T) {
	const trace = `{"t":1780286400000,"params":{"uid":"7"},"answer":{"verdict":"allow","result":1,"return":0,"limit":9,"remaining":8}}
{"t":1780286400001,"params":{"uid":"7"}}
{"t":1780286400002,"params":{"uid":"7"},"answer":{"verdict":"deny","result":2,"return":201}}
{"t":1780286400003,"op":"refund","params":{"uid":"7"},"answer":{"verdict":"ok"}}
{"t":1780286400004,"params":{"uid":"7"},"answer":{"verdict":"deny","unavailable":true}}
`
	report, err := replay.Run(t.Context(), replay.Options{Rules: parse(t, oneRule, "UTC", nil, nil), Trace: strings.NewReader(trace), Summarize: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := (replay.Comparison{Compared: 3, Different: 1, FirstDifferent: 3}); report.Comparison != want {
		t.Errorf("%+v; want %+v", report.Comparison, want)
	}
	if report.Calls != 5 || report.Allowed != 4 || report.Undecided != 1 || report.From != 1780286400000 || report.To != 1780286400004 {
		t.Errorf("%+v", report)
	}
	var text strings.Builder
	report.WriteText(&text)
	const want = `5 calls from 2026-06-01 04:00:00 UTC to 2026-06-01 04:00:00 UTC: 4 allowed, 0 denied, 0 challenged, 1 without a verdict
1 of 3 recorded answers had another verdict or another rule, first in line 3

  rule  matched  refused  would refuse
   201        5        0             -

identities with the most hits
rule  hits  refused calls  identity
201   4     0              uid=7
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

// A replay decides by the outcomes and claims of the log: it has neither the tokens nor the keys.
func TestReplayDecidesByTheOutcomesOfTheLog(t *testing.T) {
	set := parse(t, `[tokens]
main : https://id.example.com/keys; issuer=id; audience=api
[params]
uid  : jwt main sub
plan : jwt main plan else "free"
[rules]
rule : [direct] [jwt.main=invalid,expired] [] [result=2; return=1]
rule : [direct] [jwt.main=unavailable] [] [result=2; return=2]
rule : [count] [uid=+; plan=free] [time=60; count=1] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`, "", nil, nil)
	const begin = `{"t":1780286400000,"door":"extauthz","params":{"path":"/",`
	trace := begin + `"jwt.main":"valid","uid":"ann","plan@constant":"free"}}
` + begin + `"jwt.main":"valid","uid":"ann","plan@constant":"free"}}
` + begin + `"jwt.main":"expired","plan@constant":"free"}}
` + begin + `"jwt.main":"valid","uid":"ann","plan":"gold"}}
`
	answers := new(bytes.Buffer)
	if _, err := replay.Run(t.Context(), replay.Options{Rules: set, Trace: strings.NewReader(trace), Answers: answers, OnMasked: func(m replay.MaskedParam) { t.Error(m) }}); err != nil {
		t.Fatal(err)
	}
	var returns []int64
	for d := json.NewDecoder(answers); d.More(); {
		var answer struct{ Return int64 }
		if err := d.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		returns = append(returns, answer.Return)
	}
	if diff := cmp.Diff([]int64{0, 3, 1, 0}, returns); diff != "" {
		t.Errorf("the rules that decide (-want +got):\n%s", diff)
	}
}
