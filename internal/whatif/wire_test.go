package whatif

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wireFound is what an instance writes to Redis about a trial. Instances of other program
// versions read it during an upgrade.
const wireFound = `{"requests":10,"dropped":1,"refused_in_force":2,"refused_on_trial":3,"newly_refused":2,"newly_allowed":1,` +
	`"rules":[{"rule":201,"name":"posts","newly_refused":2,"newly_allowed":1,"identities":[{"identity":"uid=ann","newly_refused":2,"newly_allowed":1}]}]}`

func TestWireForm(t *testing.T) {
	d := Differences{NewlyRefused: 2, NewlyAllowed: 1}
	f := Found{
		Totals: Totals{Requests: 10, Dropped: 1, RefusedInForce: 2, RefusedOnTrial: 3, Differences: d},
		Rules:  []Rule{{Rule: 201, Name: "posts", Differences: d, Identities: []Identity{{Identity: "uid=ann", Differences: d}}}},
	}
	if got := string(f.Encode()); got != wireFound {
		t.Errorf("a report is\n%s\nwant\n%s", got, wireFound)
	}
	newer := strings.Replace(wireFound, `{"requests"`, `{"new":{"a":[1]},"requests"`, 1)
	got, err := ParseFound([]byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzParseFound checks that any report in Redis is read or refused, and that reports that
// were read can be merged.
func FuzzParseFound(f *testing.F) {
	f.Add([]byte(wireFound))
	f.Add([]byte(`{"requests":9007199254740992,"rules":[{"rule":1,"identities":[{"identity":"\u001b[2J"}]},{"rule":1,"newly_refused":1}]}`))
	f.Add([]byte(`{"requests":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := ParseFound(text)
		if err != nil {
			return
		}
		var tally Tally
		for _, found := range []Found{one, one, {Totals: Totals{Requests: 1}}} {
			tally.Merge(&found)
		}
		all := tally.Found(ShownIdentities)
		if all.Requests != 2*one.Requests+1 || all.NewlyRefused != 2*one.NewlyRefused || len(all.Rules) > len(one.Rules) {
			t.Errorf("%+v of %+v", all, one)
		}
		for i := range all.Rules {
			r := &all.Rules[i]
			if len(r.Identities) > ShownIdentities || r.NewlyRefused < 0 || strings.ContainsRune(r.Name, '\x1b') {
				t.Errorf("%+v", r)
			}
			for j := range r.Identities {
				if strings.ContainsAny(r.Identities[j].Identity, "\x1b\n") {
					t.Errorf("%q", r.Identities[j].Identity)
				}
			}
		}
		if _, err := json.Marshal(&all); err != nil {
			t.Error(err)
		}
	})
}
