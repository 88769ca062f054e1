package sandbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

func parse(t *testing.T) *rules.Set {
	t.Helper()
	const text = "[rules]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

func take() *engine.Call {
	return &engine.Call{Op: engine.Take, Now: 1780286400000, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "7"}), Hits: 1}}}
}

func TestSandboxesShareNoCounters(t *testing.T) {
	server := storetest.StartServer(t)
	set := parse(t)
	for _, o := range []sandbox.Options{{}, {Store: sandbox.Memory}, {Store: server.URL()}, {Store: server.URL(), RedisPrefix: "mine"}} {
		s, err := sandbox.Open(set, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []rules.Verdict{rules.Allow, rules.Deny} {
			if d, err := s.Decide(t.Context(), take()); err != nil || d.Verdict != want {
				t.Errorf("%+v: call %d: %v, %v; want %v", o, i, d, err, want)
			}
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(canceled); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	client := server.Client()
	defer client.Close()
	if keys, err := client.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys %v, %v after Close", keys, err)
	}
}

func TestDecideReportsTheErrorOfTheStore(t *testing.T) {
	redisconn.LogClient(func(string) {})
	s, err := sandbox.Open(parse(t), sandbox.Options{Store: "redis://127.0.0.1:1/0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }() // it cannot reach Redis either
	if _, err := s.Decide(t.Context(), take()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v; want the refused connection", err)
	}
}

func TestOpenRejectsInvalidURLs(t *testing.T) {
	if _, err := sandbox.Open(parse(t), sandbox.Options{Store: "mysql://x"}); err == nil || !strings.Contains(err.Error(), "redis URL") {
		t.Error(err)
	}
}
