package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

func gate(t *testing.T) *Gate {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`
[rules]
rule : [count] [uid=+] [time=90; count=1;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return &Gate{Engine: engine.New(set)}
}

func ask(uid string) mapping.Request {
	return mapping.Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Context: map[string]string{"uid": uid}}
}

func TestHitCountsOneHitPerRequest(t *testing.T) {
	g, q := gate(t), new(Question)
	for i, want := range []rules.Verdict{rules.Allow, rules.Deny} {
		q.Request = ask("ann")
		d, err := g.Decide(t.Context(), q, g.Hit(q))
		if err != nil || d.Verdict != want {
			t.Fatalf("request %d: %+v, %v; want %v", i, d, err, want)
		}
		q.Reset()
	}
}

func TestDecideReturnsTheFaultOfTheRequest(t *testing.T) {
	g, q := gate(t), new(Question)
	q.Request = ask("ann")
	q.Request.Path = "/%zz"
	d, err := g.Decide(t.Context(), q, g.Hit(q))
	if f := FaultOf(err); d != nil || f.Status != http.StatusBadRequest || q.Fault() == nil {
		t.Errorf("got %+v, %v; want the fault of a malformed path", d, err)
	}
}

func TestInputsAreIndependentAndStartEmpty(t *testing.T) {
	g, q := gate(t), new(Question)
	g.Begin(q, 2)
	for i, uid := range []string{"ann", "bob"} {
		q.Request = ask(uid)
		if err := g.Map(q, i); err != nil {
			t.Fatal(err)
		}
		q.Inputs()[i].Refund = true
	}
	for i, uid := range []string{"ann", "bob"} {
		if got, _ := q.Inputs()[i].Params.Get("uid"); got != uid {
			t.Errorf("input %d has uid=%s; want %s", i, got, uid)
		}
	}
	for n := range 4 {
		q.Reset()
		g.Begin(q, n)
		for i := range q.Inputs() {
			if in := &q.Inputs()[i]; in.Refund || in.EffectiveHits() != 1 || in.Params.Len() != 0 {
				t.Errorf("input %d of %d begins as %+v", i, n, in)
			}
		}
	}
}

func TestResetDropsTheCallAndKeepsOrdinaryMemory(t *testing.T) {
	for name, test := range map[string]struct {
		inputs, arguments int
		kept              bool
	}{
		"ordinary":       {4, 4, true},
		"many inputs":    {keptInputs + 1, 4, false},
		"many arguments": {4, keptArguments * 2, false},
	} {
		g, q := gate(t), new(Question)
		g.Begin(q, test.inputs)
		q.Request = ask(strings.Repeat("u", 100))
		q.Request.Args = make([]mapping.Entry, test.arguments, test.arguments+1)
		q.Request.Args[1].Key = "act"
		q.Request.Args = q.Request.Args[:1]
		if err := g.Map(q, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Decide(t.Context(), q, engine.Call{Op: engine.Take}); err != nil {
			t.Fatal(err)
		}
		q.Reset()
		if q.rules != nil || len(q.inputs) != 0 || q.call.Rules != nil || q.call.Inputs != nil || q.Request.Context != nil || len(q.Request.Args) != 0 {
			t.Errorf("%s: the question holds %+v", name, q)
		}
		if kept := cap(q.inputs) > 0 && cap(q.Request.Args) > 0; kept != test.kept {
			t.Errorf("%s: memory kept is %v; want %v", name, kept, test.kept)
		}
		for _, in := range q.inputs[:cap(q.inputs)] {
			if in != (engine.Input{}) {
				t.Errorf("%s: the input %+v is kept", name, in)
			}
		}
		for _, a := range q.Request.Args[:cap(q.Request.Args)] {
			if a != (mapping.Entry{}) {
				t.Errorf("%s: the argument %q is kept", name, a)
			}
		}
		for i := range q.params {
			if q.params[i].Len() != 0 {
				t.Errorf("%s: the parameters %v are kept", name, q.params[i].List())
			}
		}
	}
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		err               error
		status            int
		detail            string
		request, canceled bool
	}{
		"refused by the mapping": {&mapping.Refusal{Status: 403, Reason: "no address"}, 403, "no address", true, false},
		"wrapped":                {fmt.Errorf("x: %w", &mapping.Refusal{Status: 403, Reason: "no address"}), 403, "no address", true, false},
		"unreadable as a call":   {Invalid("%d descriptors", 9), 400, "9 descriptors", true, false},
		"refused by the engine":  {&engine.InvalidError{Reason: "no hits"}, 400, "invalid call: no hits", true, false},
		"canceled":               {context.Canceled, 503, "", false, true},
		"timed out":              {context.DeadlineExceeded, 503, "", false, false},
		"unknown":                {errors.New("secret"), 503, "", false, false},
	} {
		f := FaultOf(test.err)
		if f.Status != test.status || f.Detail != test.detail || f.IsRequest() != test.request || f.IsCanceled() != test.canceled || !errors.Is(f.Err, test.err) {
			t.Errorf("%s: %+v", name, f)
		}
		r := f.Refusal()
		if r.Status != test.status || !strings.Contains(string(r.Body), test.detail) || strings.Contains(string(r.Body), "secret") {
			t.Errorf("%s: the client receives %d %s", name, r.Status, r.Body)
		}
	}
}

func TestRefusalStatus(t *testing.T) {
	for status, want := range map[int]int{0: 403, 100: 403, 199: 403, 200: 200, 429: 429, 599: 599, 600: 403, 999: 403} {
		if got := RefusalStatus(status); got != want {
			t.Errorf("RefusalStatus(%d) = %d; want %d", status, got, want)
		}
	}
	for status, want := range map[int]bool{200: true, 204: false, 304: false, 403: true, 503: true} {
		if got := HasBody(status); got != want {
			t.Errorf("HasBody(%d) = %v; want %v", status, got, want)
		}
	}
}

func TestPoolReturnsUsableValues(t *testing.T) {
	var p Pool[Question]
	q := p.Get()
	if q == nil {
		t.Fatal("a new pool returned nil")
	}
	p.Put(q)
	if p.Get() == nil {
		t.Error("a used pool returned nil")
	}
}

func TestMissingAddressIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	g, q := gate(t), new(Question)
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`
[rules]
rule : [count] [ip=+] [time=90; count=1;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	g.Engine, g.Logger = engine.New(set), slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		q.Request = mapping.Request{Door: doorname.Middleware, Method: "GET", Path: "/", Peer: "@"}
		if _, err := g.Decide(t.Context(), q, g.Hit(q)); FaultOf(err).Status != http.StatusBadRequest {
			t.Errorf("got %v, want the fault of a malformed request", err)
		}
		q.Reset()
	}
	if got := strings.Count(log.String(), "request without an address of the client"); got != 1 {
		t.Errorf("%d lines, want 1:\n%s", got, &log)
	}
}
