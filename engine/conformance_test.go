package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// scenario is a line of the conformance files: a rule set, and steps that share one
// state.
type scenario struct {
	Name     string              `json:"name"`
	Timezone string              `json:"timezone"`
	Dicts    map[string][]string `json:"dicts"`
	Tables   map[string]string   `json:"tables"`
	Rules    string              `json:"rules"`
	Steps    []step              `json:"steps"`
}

type step struct {
	T       int64             `json:"t"`
	Op      string            `json:"op"`
	Params  map[string]string `json:"params"`
	Hits    *uint64           `json:"hits"`
	Sets    []step            `json:"sets"`
	Receipt string            `json:"receipt"` // a label
	Want    want              `json:"want"`

	Response map[string]string `json:"response"`
}

// want is an expected answer. A field that is absent here must be absent there.
type want struct {
	Verdict   string       `json:"verdict"`
	Result    *int         `json:"result"`
	Return    *int64       `json:"return"`
	Limit     *int64       `json:"limit"`
	Remaining *int64       `json:"remaining"`
	ResetMS   *int64       `json:"reset_ms"`
	RetryMS   *int64       `json:"retry_ms"`
	Shadow    []wantShadow `json:"shadow"`
	Marks     []string     `json:"marks"`
	Sets      []want       `json:"sets"`
	WaitMS    *int64       `json:"wait_ms"`
	Receipt   bool         `json:"receipt"`
}

type wantShadow struct {
	Return  int64  `json:"return"`
	Verdict string `json:"verdict"`
}

var operations = map[string]engine.Op{
	"take": engine.Take, "browse": engine.Browse, "update": engine.Update, "refund": engine.Refund,
}

// long selects every way to Redis.
var long = flag.Bool("long", false, "go every way to Redis")

func TestConformance(t *testing.T) {
	stores := map[string]func(*testing.T) store.Store{
		"memory": func(t *testing.T) store.Store {
			m := memory.New(memory.Options{})
			t.Cleanup(func() { m.Close() })
			return m
		},
	}
	server := storetest.StartServer(t)
	for _, way := range storetest.Ways(*long) {
		stores["redis, "+way.Name] = func(t *testing.T) store.Store { return server.Open(t, way.Set, lingering) }
	}
	stores["redis, on and off in turn"] = func(t *testing.T) store.Store { return server.OpenInTurn(t, lingering) }
	for _, file := range []string{"named", "random", "second", "third"} {
		for _, sc := range scenarios(t, "testdata/"+file+".jsonl") {
			for name, open := range stores {
				t.Run(file+"/"+sc.Name+"/"+name, func(t *testing.T) { sc.run(t, open(t)) })
			}
		}
	}
}

// lingering makes Redis keep counters for longer than a test takes. Redis drops them by
// its own clock, while the steps have times of their own.
func lingering(o *redis.Options) { o.Linger = time.Hour }

func scenarios(t *testing.T, path string) []scenario {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []scenario
	for line := range bytes.Lines(text) {
		var sc scenario
		if err := json.Unmarshal(line, &sc); err != nil {
			t.Fatalf("%s: scenario %d: %v", path, len(list)+1, err)
		}
		list = append(list, sc)
	}
	return list
}

func (sc *scenario) run(t *testing.T, s store.Store) {
	set := parse(t, sc.Rules, rules.Options{
		Timezone: sc.Timezone,
		OpenDict: func(_, path string) (*rules.Dict, error) {
			name := strings.TrimSuffix(path, ".dat")
			return rules.ParseDict(path, strings.NewReader(strings.Join(sc.Dicts[name], "\n")))
		},
		OpenTable: func(_, path string) (*rules.Table, error) {
			return rules.ParseTable(path, strings.NewReader(sc.Tables[strings.TrimSuffix(path, ".csv")]))
		},
	})
	e := engine.New(set, wiring.CountIn(s))
	receipts := map[string]string{}
	for i, st := range sc.Steps {
		got := st.carryOut(t, e, receipts)
		if diff := cmp.Diff(st.Want, got); diff != "" {
			t.Fatalf("step %d, %s at %d (-want +got):\n%s", i, st.Op, st.T, diff)
		}
	}
}

func parse(t testing.TB, text string, o rules.Options) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, o)
	if findings.HasErrors() {
		t.Fatalf("the rules have errors: %v", findings)
	}
	return set
}

// carryOut carries out a step. receipts are those of the labels that takes were given.
func (st *step) carryOut(t *testing.T, e *engine.Engine, receipts map[string]string) want {
	t.Helper()
	s := &engine.Settlement{Receipt: receipts[st.Receipt], Now: st.T, Response: new(rules.Params)}
	var got engine.Settled
	var err error
	switch st.Op {
	case "settle":
		if st.Hits != nil {
			s.Hits, s.HasHits = *st.Hits, true
		}
		for name, value := range st.Response {
			s.Response.Set(rules.ResponsePrefix+name, value)
		}
		got, err = e.Settle(context.Background(), s)
	case "renew":
		got, err = e.Renew(context.Background(), s)
	default:
		return st.decide(t, e, receipts)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got.Known {
		return want{Verdict: "ok"}
	}
	return want{Verdict: "unknown"}
}

func (st *step) decide(t *testing.T, e *engine.Engine, receipts map[string]string) want {
	t.Helper()
	call := &engine.Call{Op: operations[st.Op], Now: st.T, Patience: time.Minute}
	sets := st.Sets
	if sets == nil {
		sets = []step{*st}
	}
	for _, s := range sets {
		call.Inputs = append(call.Inputs, engine.Input{Params: rules.MakeParams(s.Params), Hits: *s.Hits, NoHits: *s.Hits == 0})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d, err := e.Decide(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	if d.Degraded || d.Unavailable {
		t.Fatalf("the store was unavailable: %+v", d)
	}
	if st.Op == "update" || st.Op == "refund" {
		return want{Verdict: "ok"}
	}
	var w want
	if st.Sets == nil {
		w = answered(&d.Answers[0])
	} else {
		w.Verdict = d.Verdict.String()
		for i := range d.Answers {
			w.Sets = append(w.Sets, answered(&d.Answers[i]))
		}
	}
	if d.Wait > 0 {
		wait := d.Wait.Milliseconds()
		w.WaitMS = &wait
	}
	if d.Receipt != "" && st.Receipt != "" {
		receipts[st.Receipt] = d.Receipt
		w.Receipt = true
	}
	return w
}

func answered(a *engine.Answer) want {
	w := want{Verdict: a.Verdict.String(), Result: &a.Result.Number, Return: new(int64)}
	if a.Decider != nil {
		w.Return = &a.Decider.Return
	}
	if a.Limited {
		reset := a.Quota.ResetMS()
		w.Limit, w.Remaining, w.ResetMS = &a.Quota.Limit, &a.Quota.Remaining, &reset
	}
	if a.Retry >= 0 {
		retry := a.RetryMS()
		w.RetryMS = &retry
	}
	for _, s := range a.Shadow {
		w.Shadow = append(w.Shadow, wantShadow{s.Rule.Return, s.Verdict.String()})
	}
	w.Marks = a.Marks()
	return w
}
