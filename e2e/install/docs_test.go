package install_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

var (
	link     = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	treePath = regexp.MustCompile(`\b(?:deploy|e2e|examples)/[A-Za-z0-9_./-]*[A-Za-z0-9_]`)
	variable = regexp.MustCompile(`\bKOALAGATE_[A-Z0-9_]+`)
)

// The pages about installations name files, settings and pages that exist.
func TestPagesNameWhatExists(t *testing.T) {
	pages, err := filepath.Glob("docs/install/*.md")
	if err != nil || len(pages) != 7 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil && !strings.Contains(m[1], "://") {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, path := range treePath.FindAllString(text, -1) {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			key := strings.ToLower(strings.TrimPrefix(name, "KOALAGATE_"))
			if key != "config" && !slices.Contains(config.Keys(), key) {
				t.Errorf("%s: %s is not a setting", page, name)
			}
		}
	}
}

// The workflows call targets and scripts that exist, and pass the checkers.
func TestWorkflows(t *testing.T) {
	workflows, err := filepath.Glob(".github/workflows/*.yaml")
	if err != nil || len(workflows) != 3 {
		t.Fatalf("%d workflows, %v", len(workflows), err)
	}
	makefile := read(t, "Makefile")
	target := regexp.MustCompile(`\bmake ([a-z]+)`)
	for _, path := range workflows {
		text := read(t, path)
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", path, m[1])
			}
		}
		for _, script := range treePath.FindAllString(text, -1) {
			if _, err := os.Stat(script); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if !*long {
		return
	}
	run(t, nil, "actionlint", workflows...)
	run(t, nil, "zizmor", "--offline", "--no-progress", "--config", ".github/zizmor.yml", ".github/workflows")
	run(t, nil, "check-jsonschema", append([]string{"--builtin-schema", "vendor.github-workflows"}, workflows...)...)
}
