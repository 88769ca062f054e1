package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A thousand rules stay usable at a processor that is slowed down four times. The log has
// the times.
func TestManyRules(t *testing.T) {
	t.Parallel()
	const n = 1000
	var rules strings.Builder
	rules.WriteString("[rules]\n")
	for i := range n {
		fmt.Fprintf(&rules, "rule : [count] [act=a%d; uid=+] [time=60; count=%d] [result=2; return=%d; name=rule-%d]\n", i, i+1, 1001+i, i)
	}
	_, results, _ := strings.Cut(ruleFile, "[result]")
	f := fileFleet(t, rules.String()+"[result]"+results)
	w := enter(t, f.one.Admin, "", desk)
	w.run(emulation.SetCPUThrottlingRate(4))
	begin := time.Now()
	w.run(chromedp.Reload())
	w.wait(`document.querySelector(".tiles")`)
	t.Logf("first view, %d rules: %.2f s", n, time.Since(begin).Seconds())
	begin = time.Now()
	w.click("Rules")
	w.wait(`document.querySelectorAll("table.rules tbody tr").length > 50`)
	t.Logf("table of rules: %.2f s", time.Since(begin).Seconds())
	begin = time.Now()
	w.wait(`scrollTo(0, document.body.scrollHeight) || document.querySelectorAll("table.rules tbody tr").length === ` + strconv.Itoa(n))
	t.Logf("all rows, by scrolling: %.2f s", time.Since(begin).Seconds())
	begin = time.Now()
	w.write("Search rules and identities", "rule-777")
	w.wait(`document.querySelectorAll("table.rules tbody tr").length === 1`)
	t.Logf("search: %.2f s", time.Since(begin).Seconds())
}

// A file that is too large is refused before it is read, and nothing is lost.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	w.edit(with(t, "count=4]", "count=40]"))
	w.see("count 4 → 40")
	path := filepath.Join(t.TempDir(), "large.conf")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 61<<20); err != nil {
		t.Fatal(err)
	}
	w.run(chromedp.SetUploadFiles(`input[type="file"]`, []string{path}, chromedp.ByQuery))
	w.see("These files are larger than 60 MB together")
	w.see("count 4 → 40")
}
