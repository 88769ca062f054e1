package tree

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// block is a fenced example of the manual: its kind and its contents.
var block = regexp.MustCompile("(?ms)^```([a-z]+)([A-Z0-9 ]*)\n(.*?)^```$")

// Every example of rules/README.md is correct: rules have exactly the findings that they
// are marked with, and requests and dialogues have their outcomes with the rules above
// them.
func TestExamplesOfTheManual(t *testing.T) {
	const path = "rules/README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var set *rules.Set
	ran := map[string]int{}
	for _, m := range block.FindAllStringSubmatchIndex(string(text), -1) {
		kind, codes, body := string(text[m[2]:m[3]]), strings.Fields(string(text[m[4]:m[5]])), string(text[m[6]:m[7]])
		ran[kind]++
		at := 1 + strings.Count(string(text[:m[6]]), "\n")
		t.Run(fmt.Sprintf("line %d", at), func(t *testing.T) {
			switch kind {
			case "koala":
				set = manualRules(t, body, codes)
			case "dialogue":
				runDialogue(t, set, body)
			case "requests":
				runRequests(t, set, body)
			case "ebnf", "csv":
			default:
				t.Errorf("unknown kind of block %s", kind)
			}
		})
	}
	for _, kind := range []string{"koala", "dialogue", "requests"} {
		if ran[kind] == 0 {
			t.Errorf("%s has no block of %s", path, kind)
		}
	}
}

// manualRules parses an example, with the parts that the manual says it leaves out.
func manualRules(t *testing.T, text string, codes []string) *rules.Set {
	if !strings.HasPrefix(text, "[") {
		text = "[rules]\n" + text
	}
	rest := ""
	if !strings.Contains(text, "[rules]") {
		rest += "[rules]\nrule : [direct] [uid=1] [] [result=1; return=999]\n"
	}
	if !strings.Contains(text, "[result]") {
		rest += "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n3 : {\"Err_no\":20, \"Need_vcode\":1}\n"
	}
	sources := []rules.Source{{Name: "rules.conf", Text: []byte(text)}, {Name: "rest.conf", Text: []byte(rest)}}
	set, findings := rules.Parse(sources, rules.Options{Timezone: "UTC", OpenDict: func(_, path string) (*rules.Dict, error) {
		return rules.ParseDict(path, strings.NewReader("7\n192.0.2.0/24\n"))
	}, OpenTable: func(_, path string) (*rules.Table, error) {
		return rules.ParseTable(path, strings.NewReader("tenant,rate,burst,tier\nacme,3,,gold\nbeta,unlimited,,silver\n"))
	}, OpenKeys: func(_, path string) ([]byte, error) { return []byte(path), nil }, OpenToken: func(*rules.JWT, []byte) (rules.JWTVerifier, []error, error) {
		return nil, nil, nil
	}})
	var found []string
	for _, f := range findings {
		found = append(found, f.Code)
	}
	if !slices.Equal(slices.Compact(found), codes) {
		t.Errorf("want the findings %q, got\n%v", codes, findings)
	}
	return set
}

// dialogueStep is a line of a dialogue: time, repetitions, operation, hits, parameters
// and outcome.
var dialogueStep = regexp.MustCompile(`^(?:(Mon|Tue|Wed) )?(\d\d:\d\d(?::\d\d)?) (?:(\d+)× )?(take|browse|update|refund)(?:\*(\d+))?((?: +\S+=\S*)*) +→ (.*)$`)

var manualOperations = map[string]engine.Op{
	"take": engine.Take, "browse": engine.Browse, "update": engine.Update, "refund": engine.Refund,
}

// runDialogue runs a dialogue on an empty store, with the times of its lines.
func runDialogue(t *testing.T, set *rules.Set, text string) {
	memory := memory.New(memory.Options{})
	defer memory.Close()
	e := engine.New(set, wiring.CountIn(memory))
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		m := dialogueStep.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a line of a dialogue: %s", line)
		}
		params := new(rules.Params)
		for _, word := range strings.Fields(m[6]) {
			name, value, _ := strings.Cut(word, "=")
			params.Set(name, value)
		}
		call := &engine.Call{Door: "koala", Op: manualOperations[m[4]], Now: manualClock(t, set, m[1], m[2]).UnixMilli()}
		call.Inputs = []engine.Input{{Params: params, Hits: uint64(number(t, m[5], 1))}}
		for range number(t, m[3], 1) {
			d, err := e.Decide(context.Background(), call)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			checkOutcome(t, line, strings.Fields(m[7]), call.Op, d)
		}
	}
}

// manualClock returns the time of a step, in a week of June in the zone of the rule set.
func manualClock(t *testing.T, set *rules.Set, day, clock string) time.Time {
	if len(clock) == len("10:00") {
		clock += ":00"
	}
	date := map[string]string{"": "2026-06-01", "Mon": "2026-06-01", "Tue": "2026-06-02", "Wed": "2026-06-03"}[day]
	at, err := time.ParseInLocation(time.DateTime, date+" "+clock, set.Zone)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func number(t *testing.T, text string, otherwise int64) int64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkOutcome compares an answer with the outcome of a line: `allow left 2 of
// 4 reset 90s`. Fields that the line does not mention are ignored, except shadow rules and marks.
func checkOutcome(t *testing.T, line string, want []string, op engine.Op, d *engine.Decision) {
	a := &d.Answers[0]
	got := map[string]string{
		"by": "none", "left": strconv.FormatInt(a.Quota.Remaining, 10), "of": strconv.FormatInt(a.Quota.Limit, 10),
		"reset": shortly(a.Quota.Reset), "retry": shortly(a.Retry),
	}
	verdict := a.Verdict.String()
	if op == engine.Update || op == engine.Refund {
		verdict = "ok"
	} else {
		got["result"] = strconv.Itoa(a.Result.Number)
	}
	if a.Decider != nil {
		got["by"] = strconv.FormatInt(a.Decider.Return, 10)
	}
	for _, s := range a.Shadow {
		got["shadow"] += strconv.FormatInt(s.Rule.Return, 10)
	}
	if len(want)%2 != 1 || want[0] != verdict {
		t.Errorf("%s: the verdict is %s", line, verdict)
		return
	}
	got["marked"] = strings.Join(a.Marks(), ",")
	expected := map[string]bool{}
	for i := 1; i < len(want); i += 2 {
		expected[want[i]] = true
		if value, known := got[want[i]]; !known || value != want[i+1] {
			t.Errorf("%s: got %s %q", line, want[i], value)
		}
	}
	for _, field := range []string{"shadow", "marked"} {
		if !expected[field] && got[field] != "" {
			t.Errorf("%s: %s %s is not mentioned", line, field, got[field])
		}
	}
}

func shortly(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }

// runRequests maps the requests of `METHOD TARGET | Name: value → name=value`,
// from 203.0.113.7 at Envoy.
func runRequests(t *testing.T, set *rules.Set, text string) {
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		request, want, found := strings.Cut(line, "→")
		words := strings.Split(request, " | ")
		head := strings.Fields(words[0])
		if !found || len(head) != 2 {
			t.Fatalf("not a request: %s", line)
		}
		headers := make(http.Header)
		for _, h := range words[1:] {
			name, value, _ := strings.Cut(h, ":")
			headers.Add(name, strings.TrimSpace(value))
		}
		params := new(rules.Params)
		call := &mapping.Request{Door: doorname.ExtAuthz, Method: head[0], Path: head[1], Peer: "203.0.113.7", Headers: mapping.HTTPHeaders(headers)}
		if err := mapping.Params(set, call, &mapping.Options{}, params); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if len(strings.Fields(want)) == 0 {
			t.Errorf("%s: the line lists no parameters", line)
		}
		for _, word := range strings.Fields(want) {
			name, value, _ := strings.Cut(word, "=")
			got, there := params.Get(name)
			if !there {
				got = "absent"
			}
			if got != value {
				t.Errorf("%s: %s is %q", line, name, got)
			}
		}
	}
}
