package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// requestName is a request with an identifier.
type requestName string

func (r requestName) RequestID() string { return string(r) }

// Of each rule at each door, the first refusal in an interval is logged, with masked
// parameters; the next line has the number of refusals that were not logged.
func TestRefusalsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newRefusalLog(slog.New(slog.NewTextHandler(&text, nil)), trace.NewMask([]string{"act"}))
		refuse := func(door string, rule int64) {
			params := new(rules.Params)
			params.Set("act", "post")
			params.SetFrom(rules.FromClientIP, "uid", "203.0.113.7")
			call := &engine.Call{Door: door, Origin: requestName("r-1"), Inputs: []engine.Input{
				{Params: rules.MakeParams(map[string]string{"act": "read"})},
				{Params: params},
			}}
			l.log(call, &engine.Decision{Verdict: rules.Deny, Answers: []engine.Answer{
				{Verdict: rules.Allow},
				{Verdict: rules.Deny, Decider: &rules.Rule{Return: rule, Name: "posts"}},
			}})
		}
		for range 4 {
			refuse("extauthz", 201)
			refuse("extauthz", 202)
			refuse("accel", 201)
		}
		time.Sleep(loglimit.Every)
		refuse("extauthz", 201)
		l.log(&engine.Call{Door: "accel", Fault: errors.New("malformed path")}, &engine.Decision{Verdict: rules.Deny, Answers: []engine.Answer{{Verdict: rules.Deny}}})
		l.log(&engine.Call{Door: "accel"}, &engine.Decision{Verdict: rules.Allow, Answers: []engine.Answer{{Verdict: rules.Allow}}})
		(*refusalLog)(nil).log(&engine.Call{}, &engine.Decision{Verdict: rules.Deny})

		const begin, end = `level=INFO msg="a request was refused" door=`, ` request_id=r-1 params.act=post params.uid@client-ip=#`
		want := []string{
			begin + "extauthz decision=deny rule=201 name=posts suppressed=0" + end,
			begin + "extauthz decision=deny rule=202 name=posts suppressed=0" + end,
			begin + "accel decision=deny rule=201 name=posts suppressed=0" + end,
			begin + "extauthz decision=deny rule=201 name=posts suppressed=3" + end,
			begin + `accel decision=deny fault="malformed path" suppressed=0`,
		}
		got := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(got) != len(want) {
			t.Fatalf("%d lines; want %d:\n%s", len(got), len(want), text.String())
		}
		for i := range got {
			if _, line, _ := strings.Cut(got[i], " "); !strings.HasPrefix(line, want[i]) {
				t.Errorf("got %s\nwant %s…", line, want[i])
			}
		}
	})
}
