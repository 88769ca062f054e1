package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// leaseCase is a line of testdata/cases.jsonl: rules on one subject, and what instances do
// one after the other. Requests for parts wait until a step runs them.
type leaseCase struct {
	Name  string      `json:"name"`
	Rules []leaseRule `json:"rules"`
	Steps []leaseStep `json:"steps"`
}

type leaseRule struct {
	Method string `json:"method"` // count or token
	Time   int64  `json:"time"`
	Count  int64  `json:"count"`
	Burst  int64  `json:"burst"`
	Lease  int64  `json:"lease"` // thousandths
	Ban    int64  `json:"ban"`
	Settle int64  `json:"settle"`
}

// leaseStep is what an instance does when some time has passed, and what is true then.
type leaseStep struct {
	Pass  int64  `json:"pass"`  // ms
	At    int    `json:"at"`    // the instance
	Do    string `json:"do"`    // an operation of caseOps, or run, sweep, close, kill or cancel
	Hits  int64  `json:"hits"`  // 1 by default
	Only  *int   `json:"only"`  // a rule; all by default
	Times int    `json:"times"` // once by default
	// Meanwhile is what happens while a request for a part, by a run or an operation, is on
	// its way to Redis.
	Meanwhile []leaseStep `json:"meanwhile"`

	Want   string  `json:"want"`   // of a take: admit, refuse or early
	Held   []int64 `json:"held"`   // by each instance, of the first rule
	Used   *int64  `json:"used"`   // hits of the first rule in Redis
	Leased *int64  `json:"leased"` // hits of it that may be unspent
}

var caseOps = map[string]store.Op{"take": store.Take, "browse": store.Browse, "update": store.Update, "refund": store.Refund, "reset": store.Reset}

// caseStage is the instances of a case.
type caseStage struct {
	*testing.T
	shared    *redis.Store
	rules     []store.Rule
	now       int64
	instances [2]*Store
	pending   [2][]func()
	meanwhile []leaseStep
	plan      *store.Plan // of the last take with a receipt
	receipt   store.Answers
}

// arriving is a store with the clock of a test. As in Redis, an operation happens at the
// instant at which it arrives, which may be later than the call began.
type arriving struct {
	store.Store
	now *int64
}

func (s *arriving) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	p.Now = *s.now
	return s.Store.Evaluate(ctx, p, a)
}

func (s *arriving) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	p.Now = *s.now
	return s.Store.Cancel(ctx, p, a)
}

// Lease sends a request for a part, which arrives after the steps of meanwhile.
func (s *caseStage) Lease(ctx context.Context, l *store.Lease) (store.Grant, error) {
	steps := s.meanwhile
	s.meanwhile = nil
	s.carryOut(steps) //nolint:contextcheck // other calls
	l.Now = s.now
	return s.shared.Lease(ctx, l)
}

// carryOut carries out steps one after the other.
func (s *caseStage) carryOut(steps []leaseStep) {
	s.Helper()
	for i := range steps {
		step := &steps[i]
		s.now += step.Pass
		for range max(step.Times, 1) {
			s.do(step)
		}
		s.check(step)
		if s.Failed() {
			s.Fatalf("after step %d", i+1)
		}
	}
}

func (s *caseStage) open(at int) {
	s.pending[at] = nil
	s.instances[at] = New(&arriving{s.shared, &s.now}, s, Options{
		Clock: func() time.Duration { return time.Duration(s.now-beginning)*time.Millisecond + time.Hour },
		Now:   func() int64 { return s.now },
		Run:   func(request func()) { s.pending[at] = append(s.pending[at], request) },
	})
}

// planOf returns the plan of a step.
func (s *caseStage) planOf(step *leaseStep) *store.Plan {
	p := &store.Plan{Op: caseOps[step.Do], Now: s.now, Zone: time.UTC, Sets: []store.Set{{Allows: true}}}
	for i, r := range s.rules {
		if step.Only == nil || *step.Only == i {
			r.Weight = max(step.Hits, 1)
			p.Sets[0].Rules = append(p.Sets[0].Rules, r)
		}
	}
	return p
}

// do carries out a step once.
func (s *caseStage) do(step *leaseStep) {
	s.Helper()
	instance := s.instances[step.At]
	s.meanwhile = step.Meanwhile
	switch step.Do {
	case "run":
		for len(s.pending[step.At]) > 0 {
			request := s.pending[step.At][0]
			s.pending[step.At] = s.pending[step.At][1:]
			request()
		}
	case "sweep":
		instance.Sweep()
	case "close":
		instance.Close()
		s.open(step.At)
	case "kill":
		s.open(step.At)
	case "cancel":
		if s.plan == nil {
			s.Fatal("no take had a receipt")
		}
		if err := instance.Cancel(context.Background(), s.plan, &s.receipt); err != nil {
			s.Fatal(err)
		}
	default:
		s.evaluate(step)
	}
}

// evaluate carries out an operation.
func (s *caseStage) evaluate(step *leaseStep) {
	s.Helper()
	if _, known := caseOps[step.Do]; !known {
		s.Fatalf("unknown operation %q", step.Do)
	}
	var a store.Answers
	p := s.planOf(step)
	if err := s.instances[step.At].Evaluate(context.Background(), p, &a); err != nil {
		s.Fatal(err)
	}
	if a.Receipt != "" {
		s.plan, s.receipt = p, a
	}
	got := "admit"
	if one := &a.Sets[0]; one.Decider >= 0 {
		got = "refuse"
		if one.Early {
			got = "early"
		}
	}
	if step.Want != "" && got != step.Want {
		s.Errorf("%s, want %s", got, step.Want)
	}
}

// check compares what is held and counted with what a step wants.
func (s *caseStage) check(step *leaseStep) {
	s.Helper()
	var held []int64
	for i := range step.Held {
		held = append(held, s.instances[i].Stats().Held)
		for _, r := range s.rules[1:] { // their parts are not those of the first rule
			if one := s.instances[i].partOf(&r); one != nil {
				held[i] -= one.held
			}
		}
	}
	if diff := cmp.Diff(step.Held, held); diff != "" {
		s.Errorf("held by the instances (-want +got):\n%s", diff)
	}
	rule := s.rules[0]
	if step.Used != nil {
		p := &store.Plan{Op: store.Peek, Now: s.now, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{rule}}}}
		var a store.Answers
		if err := s.shared.Evaluate(context.Background(), p, &a); err != nil {
			s.Fatal(err)
		}
		if got := a.Sets[0].Hits; got != *step.Used {
			s.Errorf("%d hits are counted, want %d", got, *step.Used)
		}
	}
	if step.Leased != nil {
		g, err := s.shared.Lease(context.Background(), &store.Lease{Now: s.now, Rule: rule})
		if err != nil {
			s.Fatal(err)
		}
		if g.Held != *step.Leased {
			s.Errorf("%d hits may be unspent, want %d", g.Held, *step.Leased)
		}
	}
}

// partOf returns the part of a rule, nil for none.
func (s *Store) partOf(r *store.Rule) *part {
	name := appendName(nil, r)
	shard, _ := s.at(name)
	return shard.parts[string(name)]
}

// TestCases carries out the cases of testdata, which show one behavior each.
func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	for n := 0; decoder.More(); n++ {
		var c leaseCase
		if err := decoder.Decode(&c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) {
			s := &caseStage{T: t, shared: shared, now: beginning}
			for i, r := range c.Rules {
				rule := store.Rule{Subject: fmt.Appendf(nil, "case%d", n), Return: int64(i + 1), Method: store.Count, Time: r.Time, Count: r.Count, Burst: r.Burst, Lease: r.Lease, Ban: r.Ban, Settle: r.Settle}
				if r.Method == "token" {
					rule.Method = store.Token
				}
				s.rules = append(s.rules, rule)
			}
			for i := range s.instances {
				s.open(i)
			}
			s.carryOut(c.Steps)
		})
	}
}
