package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/vocabulary"
)

// The page about findings, and the parts that are read here: the heading of each code,
// its fenced examples, and links to files that do not fit in the page.
const findingsPage = "../docs/findings.md"

var (
	codeHeading = regexp.MustCompile(`(?m)^## ([EW]\d{3}): (.*)$`)
	example     = regexp.MustCompile("(?ms)^```koala ([a-z0-9 -]+)\n(.*?)^```$")
	exampleFile = regexp.MustCompile(`\(\.\./rules/(testdata/bad/[a-z0-9-]+\.conf)\)`)
)

// TestEveryFindingHasAnExampleAndAFix compares the page with the codes: each
// is there, its example produces it, and the fixed example produces nothing.
func TestEveryFindingHasAnExampleAndAFix(t *testing.T) {
	page, err := os.ReadFile(findingsPage)
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	headings := codeHeading.FindAllStringSubmatchIndex(string(page), -1)
	var found []string
	for i, at := range headings {
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		found = append(found, string(page[at[2]:at[3]])+": "+string(page[at[4]:at[5]]))
		sections[string(page[at[2]:at[3]])] = string(page[at[1]:end])
	}
	var want []string
	for _, c := range vocabulary.Codes() {
		want = append(want, c.ID+": "+c.Meaning)
		t.Run(c.ID, func(t *testing.T) { checkSection(t, c.ID, sections[c.ID]) })
	}
	if !slices.Equal(found, want) {
		t.Errorf("%s has the headings\n%s\nwant\n%s", findingsPage, strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

// checkSection checks the examples of one code.
func checkSection(t *testing.T, id, section string) {
	blocks := make(map[string]exampleText)
	for _, m := range example.FindAllStringSubmatch(section, -1) {
		kind, options, _ := strings.Cut(m[1], " ")
		blocks[kind] = exampleText{m[2], options}
	}
	bad, hasBad := blocks["bad"]
	good, hasGood := blocks["good"]
	file := exampleFile.FindStringSubmatch(section)
	if hasBad == (file != nil) || !hasGood {
		t.Fatalf("%s: want one example, in the page or in a file, and its fix", id)
	}
	var had Findings
	if file != nil {
		_, had = parseFile(t, filepath.FromSlash(file[1]))
	} else {
		had = bad.findings(blocks["before"])
	}
	if !slices.ContainsFunc(had, func(f Finding) bool { return f.Code == id }) {
		t.Errorf("the example does not produce %s but\n%v", id, had)
	}
	if has := good.findings(blocks["before"]); len(has) > 0 {
		t.Errorf("the fixed example has findings:\n%v", has)
	}
}

// exampleText is an example of the page.
type exampleText struct{ text, options string }

// findings are those of the example, and of its taking the place of an earlier
// rule set if there is one.
func (e exampleText) findings(before exampleText) Findings {
	set, findings := e.parse()
	if before.text != "" && set != nil {
		was, _ := before.parse()
		findings = append(findings, Renumbered(was, set)...)
	}
	return findings
}

// parse parses an example, with what it leaves out in a file of its own.
func (e exampleText) parse() (*Set, Findings) {
	text := e.text
	if !strings.HasPrefix(text, "[") && !strings.Contains(text, "\n[") {
		text = "[rules]\n" + text
	}
	sources := []Source{{"rules.conf", []byte(text)}}
	if !strings.Contains(e.options, "whole") {
		var rest strings.Builder
		if !strings.Contains(text, "[rules]") && !strings.Contains(text, "[ruls]") {
			fmt.Fprintln(&rest, "[rules]\nrule : [direct] [door=koala] [] [result=1; return=999]")
		}
		if !strings.Contains(text, "[result]") {
			fmt.Fprintln(&rest, "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}")
		}
		sources = append(sources, Source{"rest.conf", []byte(rest.String())})
	}
	o := Options{Timezone: "UTC", RequireEnd: strings.Contains(e.options, "require-end"), OpenDict: func(_, path string) (*Dict, error) {
		switch path {
		case "vip.dat", "gold.dat":
			return ParseDict(path, strings.NewReader("7\n8\n"))
		case "hashes.dat":
			return ParseDict(path, strings.NewReader("2bb80d537b1da3e38bd30361aa855686\n"))
		}
		return nil, errors.New("file does not exist")
	}, OpenTable: func(_, path string) (*Table, error) {
		if path != "plans.csv" {
			return nil, errors.New("file does not exist")
		}
		return ParseTable(path, strings.NewReader("tenant,rate,burst,tier,expires\nacme,5,10,gold,2027-12-31\nbeta,unlimited,,silver,\n"))
	}, OpenKeys: openKeys, OpenToken: openToken}
	if strings.Contains(e.options, "no-zone") {
		o.Timezone = ""
	}
	if _, day, ok := strings.Cut(e.options, "now-"); ok {
		now, err := time.Parse(time.DateOnly, day)
		o.Now = func() time.Time { return now }
		if err != nil {
			o.Now = nil
		}
	}
	return Parse(sources, o)
}
