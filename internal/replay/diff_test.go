package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/whatif"
)

const diffRules = `[rules]
rule : [count] [act=ask; uid=+] [time=60; count=%d;] [result=2; return=201; name=asks]
rule : [direct] [act=%s] [] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// A difference counts by rule, from the time on at which it begins.
func TestDiffCountsByRule(t *testing.T) {
	old, fresh := parse(t, fmt.Sprintf(diffRules, 2, "gone"), "", nil, nil), parse(t, fmt.Sprintf(diffRules, 1, "new"), "", nil, nil)
	lines := func() *trace.Files {
		var text strings.Builder
		for i, params := range []string{`"act":"ask","uid":"1"`, `"act":"ask","uid":"1"`, `"act":"ask","uid":"1"`, `"act":"new"`, `"act":"gone"`, `"act":"gone"`} {
			fmt.Fprintf(&text, `{"t":%d,"params":{%s}}`+"\n", 1780286400000+i, params)
		}
		return trace.NewFiles(strings.NewReader(text.String()))
	}
	got, err := replay.Diff(t.Context(), replay.DiffOptions{Old: old, New: fresh, Traces: lines(), Since: 1780286400001})
	if err != nil {
		t.Fatal(err)
	}
	if got.Calls != 5 || got.Skipped != 1 || got.From != 1780286400001 || got.To != 1780286400005 || got.NewlyRefused != 2 || got.NewlyAllowed != 2 {
		t.Errorf("%+v", got)
	}
	want := []whatif.Rule{
		{Rule: 202, Differences: whatif.Differences{NewlyRefused: 1, NewlyAllowed: 2}, Identities: []whatif.Identity{
			{Identity: "all together", Differences: whatif.Differences{NewlyRefused: 1, NewlyAllowed: 2}},
		}},
		{Rule: 201, Name: "asks", Differences: whatif.Differences{NewlyRefused: 1}, Identities: []whatif.Identity{
			{Identity: "act=ask uid=1", Differences: whatif.Differences{NewlyRefused: 1}},
		}},
	}
	if diff := cmp.Diff(want, got.Rules); diff != "" {
		t.Error(diff)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	got, err = replay.Diff(ended, replay.DiffOptions{Old: old, New: fresh, Traces: lines()})
	if !errors.Is(err, replay.ErrInterrupted) || got == nil || got.Calls != 0 {
		t.Errorf("interrupted: %+v, %v", got, err)
	}
}
