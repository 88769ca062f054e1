package tree

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// prometheusAlert is an alert of deploy/observability/alerts.yaml.
type prometheusAlert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(t *testing.T) []prometheusAlert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []prometheusAlert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(readText(t, "deploy/observability/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var alerts []prometheusAlert
	for _, g := range file.Groups {
		alerts = append(alerts, g.Rules...)
	}
	return alerts
}

// Each alert has a severity and a runbook with all sections, and no runbook is left over.
func TestAlertsHaveRunbooks(t *testing.T) {
	const site = "https://github.com/koalagate/koalagate/blob/main/"
	pages := map[string]bool{"docs/runbooks/README.md": true}
	index := readText(t, "docs/runbooks/README.md")
	for _, a := range readAlerts(t) {
		path, ok := strings.CutPrefix(a.Annotations["runbook_url"], site)
		if !ok || pages[path] {
			t.Errorf("%s: the runbook_url is %q; want a page of its own below %s", a.Alert, a.Annotations["runbook_url"], site)
			continue
		}
		pages[path] = true
		page := readText(t, path)
		for _, part := range []string{"`" + a.Alert + "`, severity " + a.Labels["severity"], "\n## Symptom\n", "\n## What it means\n", "\n## What to look at\n\n```sh", "\n## What to do\n"} {
			if !strings.Contains(page, part) {
				t.Errorf("%s has no %q", path, part)
			}
		}
		if !strings.Contains(index, "| `"+a.Alert+"` | "+a.Labels["severity"]+" | ["+a.Annotations["summary"]+"]("+filepath.Base(path)+")") {
			t.Errorf("docs/runbooks/README.md has no row of %s", a.Alert)
		}
	}
	files, err := filepath.Glob("docs/runbooks/*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d runbooks, %v", len(files), err)
	}
	for _, f := range files {
		if !pages[filepath.ToSlash(f)] {
			t.Errorf("%s belongs to no alert", f)
		}
	}
}

// expressions returns the expressions of the alerts and of the dashboard, by where they
// are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, a := range readAlerts(t) {
		all[a.Alert] = a.Expr
	}
	var dashboard any
	text, err := os.ReadFile("deploy/observability/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if expr, ok := v["expr"].(string); ok {
				all[fmt.Sprintf("dashboard %d", len(all))] = expr
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(dashboard)
	if len(all) < 50 {
		t.Fatalf("only %d expressions", len(all))
	}
	return all
}

var (
	metricUse     = regexp.MustCompile(`\b(koalagate_[a-z0-9_]+)(\{[^}]*\})?`)
	matcherLabel  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	groupLabels   = regexp.MustCompile(`by \(([^)]*)\)`)
	documentedRow = regexp.MustCompile("(?m)^\\| `(koalagate_[a-z0-9_]+)` \\| (\\w+) \\| (.+?) \\|")
)

// Every expression uses metrics of docs/metrics.md, which a test of internal/service
// compares with the service, and labels that they have.
func TestExpressionsUseDocumentedMetrics(t *testing.T) {
	labels := make(map[string][]string)
	for _, row := range documentedRow.FindAllStringSubmatch(readText(t, "docs/metrics.md"), -1) {
		of := append(strings.Fields(strings.NewReplacer("`", "", "—", "").Replace(row[3])), "instance", "job")
		if row[2] != "histogram" {
			labels[row[1]] = of
			continue
		}
		labels[row[1]+"_bucket"] = append(slices.Clone(of), "le")
		labels[row[1]+"_sum"], labels[row[1]+"_count"] = of, of
	}
	for where, expr := range expressions(t) {
		uses := metricUse.FindAllStringSubmatch(expr, -1)
		var common []string
		for _, use := range uses {
			has, documented := labels[use[1]]
			if !documented {
				t.Errorf("%s: docs/metrics.md has no %s: %s", where, use[1], expr)
				continue
			}
			common = append(common, has...)
			for _, m := range matcherLabel.FindAllStringSubmatch(use[2], -1) {
				if !slices.Contains(has, m[1]) {
					t.Errorf("%s: %s has no label %s: %s", where, use[1], m[1], expr)
				}
			}
		}
		for _, group := range groupLabels.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(group[1], ",") {
				if len(uses) > 0 && !slices.Contains(common, strings.TrimSpace(label)) {
					t.Errorf("%s: grouped by %s, which no metric has: %s", where, label, expr)
				}
			}
		}
	}
}
