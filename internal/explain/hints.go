package explain

import (
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/internal/spelling"
	"github.com/koalagate/koalagate/rules"
)

// Hints returns probable typos in the question, one sentence each. A report
// would only show that no rule is met.
func (q *Question) Hints(set *rules.Set) []string {
	var hints []string
	if upper := strings.ToUpper(q.options.Method); upper != q.options.Method {
		hints = append(hints, fmt.Sprintf("the method %s differs from %s; methods are case-sensitive", q.options.Method, upper))
	}
	given := make(map[string]bool)
	for _, e := range q.options.Params {
		given[e.Key] = true
	}
	var missing []string // parameters that rules compare and the question lacks
	for _, r := range set.Rules {
		if r.Cost != "" && !given[r.Cost] {
			missing = append(missing, r.Cost)
		}
		for i := range r.Thresholds {
			if name := r.Thresholds[i].Param; !given[name] {
				missing = append(missing, name)
			}
		}
		for _, c := range r.Conditions {
			if !given[c.Name] {
				missing = append(missing, c.Name)
			}
		}
	}
	for _, e := range q.options.Params {
		if set.Uses(e.Key) || len(e.Key) < 4 { // short names such as ip and uid are too similar
			continue
		}
		if near := spelling.Suggest(e.Key, missing); near != "" && near[0] == e.Key[0] {
			hints = append(hints, fmt.Sprintf("no rule uses the parameter %s; did you mean %s?", e.Key, near))
		}
	}
	return hints
}
