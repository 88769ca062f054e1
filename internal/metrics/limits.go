package metrics

import "cmp"

// importedRule is the label of imported limits, which have paths and no numbers.
const importedRule = "imported"

// LoadLimits makes the imported limits with these paths the active ones and returns their
// counts, index for index. Limits after the first thousand share counts, whose path is "".
func (m *Metrics) LoadLimits(paths []string) []*Rule {
	c := m.perRule
	c.loading.Lock()
	defer c.loading.Unlock()
	next := *c.rows.Load()
	before := next.limits
	next.limits = make(map[string]*Rule, min(len(paths), maxRuleRows))
	rows := make([]*Rule, len(paths))
	for i, path := range paths {
		if i >= maxRuleRows {
			path = ""
		}
		if next.limits[path] == nil {
			next.limits[path] = cmp.Or(before[path], new(Rule))
		}
		rows[i] = next.limits[path]
	}
	c.rows.Store(&next)
	return rows
}
