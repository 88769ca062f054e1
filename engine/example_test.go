package engine_test

import (
	"context"
	"fmt"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// mustParse returns the rule set of a text that has no errors.
func mustParse(text string) *rules.Set {
	set, findings := rules.Parse([]rules.Source{{Name: "example.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		panic(findings.Error())
	}
	return set
}

const exampleRules = `
[rules]
rule : [count] [act=comment; uid=+] [time=90; count=2;]   [result=2; return=201]
rule : [count] [act=export; tenant=+] [time=60; count=10;] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"Deny"}
[end]
`

// params returns parameters as an input of a call.
func params(values map[string]string) *rules.Params { return rules.MakeParams(values) }

// An engine that New builds counts in process.
func ExampleNew() {
	e := engine.New(mustParse(exampleRules))
	comment := &engine.Call{
		Op:     engine.Take,
		Inputs: []engine.Input{{Params: params(map[string]string{"act": "comment", "uid": "ann"})}},
	}
	for range 3 {
		d, err := e.Decide(context.Background(), comment)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed(), d.Verdict, d.Answers[0].Quota.Remaining)
	}
	// Output:
	// true allow 1
	// true allow 0
	// false deny 0
}

// All inputs of a call are counted, or none: here the comment is not counted,
// because the export weighs too much.
func ExampleEngine_Decide_severalInputs() {
	e := engine.New(mustParse(exampleRules))
	comment := engine.Input{Params: params(map[string]string{"act": "comment", "uid": "ann"})}
	export := engine.Input{Params: params(map[string]string{"act": "export", "tenant": "a"}), Hits: 11}
	d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{comment, export}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("allowed:", d.Allowed(), "refused input:", d.Refuser)

	d, err = e.Decide(context.Background(), &engine.Call{Op: engine.Browse, Inputs: []engine.Input{comment}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("comments left:", d.Answers[0].Quota.Remaining)
	// Output:
	// allowed: false refused input: 1
	// comments left: 2
}

// A refund gives back what a take counted, for example because the work that it
// allowed has failed.
func ExampleEngine_Decide_refund() {
	e := engine.New(mustParse(exampleRules))
	inputs := []engine.Input{{Params: params(map[string]string{"act": "comment", "uid": "ann"}), Hits: 2}}
	for _, op := range []engine.Op{engine.Take, engine.Take, engine.Refund, engine.Take} {
		d, err := e.Decide(context.Background(), &engine.Call{Op: op, Inputs: inputs})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(op, d.Allowed())
	}
	// Output:
	// take true
	// take false
	// refund true
	// take true
}

// In observe mode a door lets everything through; the answers report what it would
// have refused.
func ExampleWithModes() {
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{"import": engine.ModeObserve})
	e := engine.New(mustParse(exampleRules), engine.WithModes(modes))
	d, err := e.Decide(context.Background(), &engine.Call{
		Door:   "import",
		Op:     engine.Take,
		Inputs: []engine.Input{{Params: params(map[string]string{"act": "comment", "uid": "ann"}), Hits: 3}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Allowed(), d.Answers[0].Overruled(), d.Answers[0].Observed)
	// Output: true true deny
}

// Observe counts decisions by verdict.
func ExampleObserve() {
	verdicts := make(map[string]int) // a real observer needs a lock
	e := engine.New(mustParse(exampleRules), engine.Observe(func(_ *engine.Call, d *engine.Decision, err error) {
		if err == nil {
			verdicts[d.Verdict.String()]++
		}
	}))
	for range 5 {
		_, _ = e.Decide(context.Background(), &engine.Call{
			Op:     engine.Take,
			Inputs: []engine.Input{{Params: params(map[string]string{"act": "comment", "uid": "ann"})}},
		})
	}
	fmt.Println(verdicts["allow"], verdicts["deny"])
	// Output: 2 3
}

// A request to a language model estimates its tokens, and settles what it used.
func ExampleDecision_Settle() {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`
[rules]
rule : [count] [key=+] [time=60; count=1000; settle=600] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		fmt.Println(findings)
		return
	}
	e, ctx := engine.New(set), context.Background()
	ask := func(tokens uint64) *engine.Decision {
		d, err := e.Decide(ctx, &engine.Call{Op: engine.Take, Inputs: []engine.Input{{
			Params: rules.MakeParams(map[string]string{"key": "ann"}), Hits: tokens,
		}}})
		if err != nil {
			return nil
		}
		fmt.Println(d.Verdict, d.Answers[0].Quota.Remaining)
		return d
	}

	d := ask(800)
	ask(300) // refused while the estimate stands
	if err := d.Settle(ctx, 120); err != nil {
		fmt.Println(err)
	}
	ask(300)
	// Output:
	// allow 200
	// deny 200
	// allow 580
}

// quotas are limits of tenants from a table, and each call belongs to one tenant.
type quotas struct {
	byTenant map[string]*rules.Rule
	tenant   string
}

// Match implements engine.Source.
func (q *quotas) Match(_ int, m *rules.Matches) {
	m.List = m.List[:0]
	if r := q.byTenant[q.tenant]; r != nil {
		m.List = append(m.List, rules.Match{Rule: r, Identity: []byte(q.tenant), Limits: r.Limits, Cost: 1})
	}
}

// Conclude implements engine.Source: each limit decides by itself.
func (q *quotas) Conclude(*engine.Decision) {}

// A source adds limits from elsewhere to the rules. Both decide in one step: if one
// refuses, neither counts.
func ExampleSource() {
	e := engine.New(mustParse(exampleRules))
	refused := &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny", HTTPStatus: 429}
	source := &quotas{tenant: "a", byTenant: map[string]*rules.Rule{
		"a": {Name: "quota of a", Method: rules.Count, Limits: rules.Limits{Time: 60, Count: 1}, Result: refused},
	}}
	comment := engine.Input{Params: params(map[string]string{"act": "comment", "uid": "ann"})}
	call := &engine.Call{Op: engine.Take, Source: source, Inputs: []engine.Input{{Sourced: true}, comment}}
	for range 2 {
		d, err := e.Decide(context.Background(), call)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Verdict, d.Answers[1].Quota.Remaining)
		if d.Refuser >= 0 {
			fmt.Println("refused by", d.Answers[d.Refuser].Decider.Name)
		}
	}
	// Output:
	// allow 1
	// deny 1
	// refused by quota of a
}
