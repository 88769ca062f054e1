package tree

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// pages returns the Markdown files of the tree, by path with slashes, without reports of
// `make verify`.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "verify" || entry.Name() == "bin"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			all[filepath.ToSlash(name)] = readText(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	fence       = regexp.MustCompile("(?ms)^[ \t]*(```|~~~).*?^[ \t]*(```|~~~)$")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	inlineLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedLink   = regexp.MustCompile(`(?m)^\[[^\]]+\]: (\S+)$`)
	headingLine = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	linkedText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range headingLine.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := linkedText.ReplaceAllString(m[1], "$1")
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)] = true
	}
	return all
}

// Every link to a file leads to a file of the tree, and every anchor to a heading.
func TestLinksAndAnchors(t *testing.T) {
	all := pages(t)
	links := 0
	for name, text := range all {
		prose := codeSpan.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range append(inlineLink.FindAllStringSubmatch(prose, -1), namedLink.FindAllStringSubmatch(prose, -1)...) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", name, m[1], target)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links in %d pages", links, len(all))
	}
}

// The index leads to every page below docs; to those of folders with an index of their own,
// that index does. A link to a folder leads to all pages in it.
func TestIndexLeadsToEveryPage(t *testing.T) {
	all := pages(t)
	for name := range all {
		if !strings.HasPrefix(name, "docs/") || name == "docs/index.md" {
			continue
		}
		index, folder := "docs/index.md", "docs"
		for above := path.Dir(name); above != "docs"; above = path.Dir(above) {
			if own := above + "/README.md"; all[own] != "" && own != name {
				index, folder = own, above
				break
			}
		}
		page := strings.TrimPrefix(name, folder+"/")
		if !strings.Contains(all[index], "("+page+")") && !strings.Contains(all[index], "("+path.Dir(page)+")") {
			t.Errorf("%s does not link to %s", index, name)
		}
	}
}

// The README is short enough to be read before the first try.
func TestREADMEIsShort(t *testing.T) {
	if n := strings.Count(readText(t, "README.md"), "\n"); n > 150 {
		t.Errorf("README.md has %d lines; want at most 150: move details to docs", n)
	}
}

// The README names the two commands that do everything from the sources: what each does and needs,
// what it fetches, and how long it takes.
func TestREADMENamesBothCommands(t *testing.T) {
	readme, makefile := readText(t, "README.md"), readText(t, "Makefile")
	const titles = "| command | does | needs | fetches | takes, on two cores |"
	_, table, found := strings.Cut(readme, "\n"+titles+"\n")
	if !found {
		t.Fatalf("README.md has no table %s", titles)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, target := range []string{"run", "test"} {
		_, row, _ := strings.Cut(table, "\n| `make "+target+"` |")
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		if len(cells) != 4 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("README.md states of make %s %q; want what it does, needs and fetches, and how long it takes", target, cells)
		} else if !strings.Contains(cells[3], "minute") {
			t.Errorf("README.md states that make %s takes%s", target, cells[3])
		}
		if !strings.Contains(makefile, "\n"+target+": ") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
}

// The README shows rules without findings, and beside limits of envoyproxy/ratelimit the rule that
// they are converted to.
func TestREADMEShowsRules(t *testing.T) {
	var limits, shown string
	for _, m := range block.FindAllStringSubmatch(readText(t, "README.md"), -1) {
		switch m[1] {
		case "yaml":
			limits = m[3]
		case "koala":
			manualRules(t, m[3], nil)
			shown += m[3]
		}
	}
	config, err := envoylimits.Read("README.md", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	set, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := set.Rules()
	converted := regexp.MustCompile(`(?m)^rule : .*$`).FindAllString(text, -1)
	if len(converted) != 1 || !strings.Contains(shown, converted[0]+"\n") {
		t.Errorf("README.md does not show the rule of its limits: %s", converted)
	}
}

// The page of the first limit shows the rule file that it uses.
func TestFirstLimitShowsItsRules(t *testing.T) {
	if !strings.Contains(readText(t, "docs/first-limit.md"), "```koala\n"+readText(t, "examples/first-limit/rules.conf")+"```") {
		t.Error("docs/first-limit.md does not show examples/first-limit/rules.conf as it is")
	}
}

// The page on incidents shows for each how to solve it on the page of the service, with pictures, by
// commands and by the API.
func TestIncidentsHaveThreeWays(t *testing.T) {
	text := readText(t, "docs/incidents.md")
	pictures, err := filepath.Glob("docs/incidents/*.webp")
	if err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"A customer is limited: why, and give him two hours", "A rule refuses everybody: undo it", "Who attacks the log-in: ban him for an hour"} {
		_, section, _ := strings.Cut(text, "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, way := range []string{"\n**Page.** ", "](incidents/", "\n**Commands.**\n", "\nkoalagate ", "\n**API.**", "\ncurl -s http"} {
			if !strings.Contains(section, way) {
				t.Errorf("docs/incidents.md, %q: no %q", title, way)
			}
		}
	}
	for _, path := range pictures {
		if !strings.Contains(text, "]("+strings.TrimPrefix(path, "docs/")+")") {
			t.Errorf("docs/incidents.md does not show %s", path)
		}
	}
}

// Pages whose readers meet lists say what a mask is, and the setting that shows values.
func TestPagesExplainMasks(t *testing.T) {
	for _, path := range []string{"docs/page.md", "docs/operators.md", "docs/incidents.md", "docs/install/deb.md"} {
		text := readText(t, path)
		if !strings.Contains(text, "mask") || !strings.Contains(text, "decision_log_params") {
			t.Errorf("%s does not say that values are masked in lists unless decision_log_params has them", path)
		}
	}
}
