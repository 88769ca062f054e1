package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files of the reports, from the root of the module.
const (
	// Newest is the last report.
	Newest = "docs/reports/bench.md"
	// Earlier is the folder of the reports before it.
	Earlier = "docs/reports/bench"
)

// The names of sections that tests and pages refer to.
const (
	RunSection     = "Run"
	GoalsSection   = "Goals"
	ReasonsSection = "Why goals are missed"
	FiguresSection = "Figures without a goal"
	PeerSection    = "Next to envoyproxy/ratelimit, in all kept reports"
)

// PeerMark is the end of the names of figures that compare with another program, whose pages
// state the range over all kept reports.
const PeerMark = " relative to envoyproxy/ratelimit"

// Run describes one run of the benchmarks.
type Run struct {
	Commit   string
	Begun    time.Time
	Machine  string
	Programs []string // with their versions
	Load     string   // the load average before the run
	Short    bool     // measured roughly
	Took     time.Duration
}

// form names the form of a run.
func form(short bool) string {
	if short {
		return "short: figures are rough"
	}
	return "full"
}

func (r *Run) begun() string { return r.Begun.UTC().Format("2006-01-02 15:04 UTC") }

func (r *Run) section() Section {
	return Section{Name: RunSection, Chapter: true, Tables: []Table{{
		Columns: []string{"", "of this report"},
		Rows: [][]string{
			{"commit", r.Commit},
			{"begun", r.begun()},
			{"machine", r.Machine},
			{"programs", strings.Join(r.Programs, ", ")},
			{"load average before", r.Load},
			{"form", form(r.Short)},
			{"took", r.Took.Round(time.Second).String()},
		},
	}}, Note: "With a load average above 1 before the run, other programs were at work: times are then not\nreliable, and ratios less so."}
}

// Compose returns the page of a run. Earlier are the kept reports, with which the ratios to
// other programs are listed.
func Compose(r *Run, goals []Goal, parts []*Part, earlier []*Page) (string, error) {
	var sections []Section
	var figures []Figure
	for _, p := range parts {
		sections, figures = append(sections, p.Sections...), append(figures, p.Figures...)
	}
	promised, others, missed := goalsAndFigures(goals, figures)
	front := []Section{r.section(), {
		Name: GoalsSection, Chapter: true, Tables: []Table{promised},
		Text: "What the developers aim for: bounds for medians. A goal that is not met is **missed**.",
	}}
	if len(missed) > 0 {
		front = append(front, Section{
			Name: ReasonsSection, Chapter: true,
			Text: "As profiles of CPU time and counts of instructions showed when somebody looked: shares are not of\nthis run.\n\n" + reasons(missed),
		})
	}
	if len(others.Rows) > 0 {
		front = append(front, Section{Name: FiguresSection, Chapter: true, Tables: []Table{others}})
	}
	if peers := peerTables(r, figures, earlier); peers != nil {
		front = append(front, Section{
			Name: PeerSection, Chapter: true, Tables: peers,
			Text: "Medians of the rounds' ratios, in the last run and in all full ones that are kept, which are listed\nbelow: such a ratio depends on the machine.",
		})
	}
	var b strings.Builder
	b.WriteString(preface)
	seen := map[string]bool{}
	for _, s := range append(front, sections...) {
		if seen[s.Name] {
			return "", fmt.Errorf("two sections are named %q", s.Name)
		}
		seen[s.Name] = true
		b.WriteString(s.Markdown())
	}
	return b.String(), nil
}

const preface = `# Measurements

` + "`make bench`" + ` writes this report, and keeps those before it in the folder docs/reports/bench.
[performance.md](../performance.md) explains what is measured, and how to repeat it.
Figures are medians. Ratios are taken round by round between neighboring turns of one run; a
pair in parentheses is the least and the greatest of them. A ratio of two sections divides their
medians, and its pair has the least and the greatest that their turns allow. CPU is the time of
all processors, user and system.
`

// peerTables returns the ratios to another program, with their range in all kept reports, and
// what these reports are of. There are none without a ratio.
func peerTables(r *Run, figures []Figure, earlier []*Page) []Table {
	runs := Table{Columns: []string{"begun", "commit", "machine"}, Rows: [][]string{{r.begun(), r.Commit, r.Machine}}}
	earlier = slices.DeleteFunc(slices.Clone(earlier), func(p *Page) bool { return p.of("form") != form(false) })
	for _, p := range earlier {
		runs.Rows = append(runs.Rows, []string{p.of("begun"), p.of("commit"), p.of("machine")})
	}
	ratios := Table{Columns: []string{"ratio", "last run", "least", "most"}}
	for i := range figures {
		name, compares := strings.CutSuffix(figures[i].Name, PeerMark)
		if !compares {
			continue
		}
		all := []float64{figures[i].Value.Median}
		for _, p := range earlier {
			if n, measured := p.median(figures[i].Name); measured {
				all = append(all, n)
			}
		}
		row := []string{name}
		for _, n := range []float64{all[0], slices.Min(all), slices.Max(all)} {
			row = append(row, fmt.Sprintf("%.2f", n))
		}
		ratios.Rows = append(ratios.Rows, row)
	}
	if len(ratios.Rows) == 0 {
		return nil
	}
	return []Table{ratios, runs}
}

// Keep writes the newest report. The one before it moves to the folder of the earlier ones.
func Keep(root, text string) error {
	newest := filepath.Join(root, Newest)
	before, err := os.ReadFile(newest) //nolint:gosec // a page of the repository
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(newest, []byte(text), 0o644) //nolint:gosec // a public report
	} else if err != nil {
		return err
	}
	p, err := Parse(string(before))
	if err != nil {
		return fmt.Errorf("%s: %w", newest, err)
	}
	if p.of("form") != form(false) {
		return os.WriteFile(newest, []byte(text), 0o644) //nolint:gosec // a public report
	}
	folder := filepath.Join(root, Earlier)
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // public reports
		return err
	}
	// Links of a kept report lead one folder further.
	moved := strings.NewReplacer("](../", "](../../").Replace(string(before))
	begun := strings.NewReplacer(" UTC", "", ":", "", " ", "-").Replace(p.of("begun"))
	kept := filepath.Join(folder, begun+"-"+strings.TrimSuffix(p.of("commit"), "+")+".md")
	return errors.Join(os.WriteFile(kept, []byte(moved), 0o644), os.WriteFile(newest, []byte(text), 0o644)) //nolint:gosec // public reports
}
