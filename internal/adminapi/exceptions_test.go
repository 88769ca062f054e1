package adminapi

import (
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/rules"
)

// A caller whose clock is wrong by minutes states for how long an exception is in force.
func TestExceptionsForAWhile(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newStage(t, func(o *Options) {
		set, _ := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleFile)}}, rules.Options{})
		o.Exceptions = exceptions.New(exceptions.Options{Now: func() time.Time { return now }})
		o.Exceptions.Use(set)
	})
	for body, want := range map[string]string{
		`{"rule":201,"identity":{"uid":"ann"},"what":"deny"}],"for_ms":300000`:                                      `"until": "2030-01-02T03:09:05Z"`,
		`{"rule":201,"identity":{"uid":"bob"},"what":"deny","until":"2001-01-01T00:00:00Z"}],"for_ms":2678400000`:   `"until": "2030-02-02T03:04:05Z"`,
		`{"rule":201,"identity":{"uid":"eve"},"what":"deny"}],"for_ms":2678400001`:                                  "which is 31 days",
		`{"rule":201,"identity":{"uid":"eve"},"what":"deny"}],"for_ms":-1`:                                          "want 1",
		`{"rule":201,"identity":{"uid":"eve"},"what":"deny"}]`:                                                      "has passed",
		`{"id":"ABCDEFGHIJKL","rule":201,"identity":{"uid":"eve"},"what":"deny","signature":"AAAA"}],"for_ms":1000`: "whose signature covers its end",
	} {
		w := s.ask("POST exceptions", `{"exceptions":[`+body+`}`, "Authorization", "Bearer "+changeToken)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s; want %s", body, w.Body, want)
		}
	}
}
