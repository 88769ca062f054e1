package ratelimit_test

import (
	"bytes"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

// The memory of a call is reused. Whatever the previous call contained, and wherever it
// was corrupt, the reply must equal a new door's.
func TestReplyContainsNothingOfEarlierCalls(t *testing.T) {
	// No hits, because counters would make the replies differ.
	const look = `"hits_addend": "0"`
	var calls [][]byte
	for _, text := range []string{
		`{}`,
		`{"domain": "lab", "descriptors": [{}]}`,
		`{"domain": "lab", "hits_addend": 4294967295, "descriptors": [{}, {}]}`,
		`{"domain": "lab", "descriptors": [` + one("x", "y", look) + `, ` + one("day", "d", look, `"limit": {"unit": 77}`) + `]}`,
		`{"domain": "lab", "descriptors": [` + one("act", "own", look) + `]}`,
		`{"domain": "other", "descriptors": [` + one("tenant", "t", look) + `, ` + one("act", "robot", look) + `, ` + one("uid", "ann", look, `"is_negative_hits": true`) + `]}`,
		`{"domain": "lab", "descriptors": [` + one("x", "y", look, `"limit": {"requests_per_unit": 7, "unit": "HOUR", "unit_multiplier": 2}`) + `, ` + one("act", "black", look) + `, ` + one("uid", "ann", look) + `]}`,
	} {
		calls = append(calls, wiretest.Marshal(t, request(t, text)))
	}
	door := func() *wiretest.Front {
		counters := newClock().store()
		t.Cleanup(counters.Close)
		return wiretest.Open(ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, outcomes), wiring.CountIn(counters)), SendHeaders: true}))
	}
	reply := func(d *wiretest.Front, call []byte) []byte {
		answer, err := d.Call(t.Context(), call)
		if err != nil {
			return []byte(err.Error())
		}
		return answer
	}
	var replies [][]byte
	for _, call := range calls {
		replies = append(replies, reply(door(), call))
	}
	richest := calls[len(calls)-1]
	if len(replies[len(calls)-1]) < 200 {
		t.Fatalf("the richest call is answered %q", replies[len(calls)-1])
	}
	for end := range richest {
		calls = append(calls, richest[:end])
	}
	used := door()
	for i, call := range calls {
		for j, want := range replies {
			reply(used, call)
			if got := reply(used, calls[j]); !bytes.Equal(got, want) {
				t.Fatalf("after call %d, call %d is answered %q; want %q", i, j, got, want)
			}
		}
	}
}
