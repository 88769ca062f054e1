package reload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/rules"
)

func parsedRules(t *testing.T, lines string) *rules.Set {
	t.Helper()
	text := "[rules]\n" + lines + "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

func line(number, count int) string {
	return fmt.Sprintf("rule : [count] [n=%d; uid=+] [time=60; count=%d] [result=2; return=%d]\n", number, count, number)
}

func TestChangesInOneLine(t *testing.T) {
	for _, c := range []struct{ before, now, want string }{
		{line(1, 5), line(1, 5), "at most comments and layout"},
		{line(1, 5) + line(2, 5), line(1, 6) + line(3, 5), "added 3; removed 2; changed 1 (count 5 → 6)"},
		{line(1, 5) + line(2, 5), line(2, 5) + line(1, 5), "order"},
	} {
		if got := ChangesOf(rules.Compare(parsedRules(t, c.before), parsedRules(t, c.now))).String(); got != c.want {
			t.Errorf("got %q; want %q", got, c.want)
		}
	}
}

// The report of a reload that changes everything is bounded, and its totals are exact.
func TestChangesAreBounded(t *testing.T) {
	var before, now strings.Builder
	for n := range 500 {
		before.WriteString(line(n+1, 5))
		now.WriteString(strings.Replace(line(n+101, 6), "n=", "n="+strings.Repeat("ö", 300)+",", 1))
	}
	c := ChangesOf(rules.Compare(parsedRules(t, before.String()), parsedRules(t, now.String())))
	if c.Added != 100 || c.Removed != 100 || c.Changed != 400 {
		t.Errorf("%d added, %d removed, %d changed; want 100, 100, 400", c.Added, c.Removed, c.Changed)
	}
	text := c.String()
	document, err := json.Marshal(c)
	if err != nil || len(text) > 20_000 || len(document) > 20_000 {
		t.Errorf("%d and %d bytes, %v; want 20,000 at most", len(text), len(document), err)
	}
	if !strings.Contains(text, "and 380 more") || !strings.ContainsRune(text, '…') || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("got %s", text)
	}
}
