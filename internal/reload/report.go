package reload

import "github.com/koalagate/koalagate/rules"

// reportedFinding identifies a finding, wherever its line has moved.
type reportedFinding struct{ code, file, message string }

// report logs findings, apart from findings that were logged for the previous generation.
func (r *Reloader) report(findings rules.Findings) {
	before, unchanged := r.reported, 0
	r.reported = make(map[reportedFinding]int, len(findings))
	for _, f := range findings {
		key := reportedFinding{f.Code, f.Position.File, f.Message}
		r.reported[key]++
		if r.reported[key] <= before[key] {
			unchanged++
			continue
		}
		r.options.Logger.Warn("finding in a rule file", "finding", f.Error())
	}
	if unchanged > 0 {
		r.options.Logger.Info("findings of the previous rules still apply", "findings", unchanged)
	}
}
