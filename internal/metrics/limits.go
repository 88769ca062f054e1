package metrics

// importedRule is the label of imported limits, which have paths and no numbers.
const importedRule = "imported"

// LoadLimits makes the imported limits with these paths the active ones and returns their
// counts, index for index. Limits after the first thousand share counts, whose path is "".
func (m *Metrics) LoadLimits(paths []string) []*Rule {
	c := m.perRule
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.limits
	c.limits = make(map[string]*Rule, min(len(paths), maxRuleRows))
	rows := make([]*Rule, len(paths))
	for i, path := range paths {
		if i >= maxRuleRows {
			path = ""
		}
		if c.limits[path] == nil {
			if c.limits[path] = before[path]; c.limits[path] == nil {
				c.limits[path] = new(Rule)
			}
		}
		rows[i] = c.limits[path]
	}
	return rows
}
