package koala_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/rules"
)

// What a trial keeps of a job is of that job, and not of the one before.
func TestTrialsSeeEachJob(t *testing.T) {
	set := new(rules.Set)
	var kept []string
	o := options(t)
	o.Watch = &door.Watch{
		Mapped: func(q *door.Question, i int) { q.Keep(i, set) },
		Decided: func(_ context.Context, q *door.Question, _ time.Time, _ *engine.Decision, _ error) {
			for _, a := range q.Kept(0, set).Args {
				if a.Key == "uid" {
					kept = append(kept, a.Value)
				}
			}
		},
	}
	jobs := `[{"Id":"1","Arg":"uid=ann"},{"Id":"2","Arg":"uid=eve"},{"Id":"3","Arg":"uid=bob"}]`
	koala.New(o).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/multi/browse?argsJson="+url.QueryEscape(jobs), nil))
	if len(kept) != 3 || kept[0] != "ann" || kept[1] != "eve" || kept[2] != "bob" {
		t.Errorf("kept are %q; want ann, eve, bob", kept)
	}
}
