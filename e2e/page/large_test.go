package page

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var identities = flag.Int("identities", 1000, "how many identities a thousand rules refuse before the page is opened")

// A thousand rules that refuse stay usable at a processor that is slowed down four times. The
// log has the times.
func TestManyRules(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	const n = 1000
	var rules strings.Builder
	rules.WriteString("[rules]\n")
	for i := range n {
		fmt.Fprintf(&rules, "rule : [count] [act=a%d; uid=+] [time=3600; count=1] [result=2; return=%d; name=rule-%d]\n", i, 1001+i, i)
	}
	_, results, _ := strings.Cut(ruleFile, "[result]")
	f := fileFleet(t, rules.String()+"[result]"+results)
	for i := range *identities {
		for range 2 {
			if err := take(t.Context(), fmt.Sprintf("http://%s/rule/take?act=a%d&uid=user-%d", f.one.HTTP, i%n, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := enter(t, f.one.Admin, "", desk)
	w.run(emulation.SetCPUThrottlingRate(4))
	begin := time.Now()
	w.run(chromedp.Reload())
	w.wait(`document.querySelector(".tiles")`)
	t.Logf("first view, %d rules and %d identities: %.2f s", n, *identities, time.Since(begin).Seconds())
	w.wait(`document.querySelectorAll(".columns .panel")[1]?.querySelectorAll("tbody tr").length >= 10`)
	t.Logf("with the rules that refuse and who is refused most: %.2f s", time.Since(begin).Seconds())
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

// take calls Koala's API.
func take(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

var exceptionCount = flag.Int("exceptions", 100_000, "how many exceptions the command line and the page must bear")

// batch is the number of exceptions that the command line adds at a time, and batchTime the
// maximum time until it has the answer.
const (
	batch     = 1000
	batchTime = 5 * time.Second
)

// within logs how long a view took, and fails if that is more than ten times the second that it may
// take on a machine that does nothing else.
func within(t *testing.T, what string, begin time.Time) {
	t.Helper()
	took := time.Since(begin)
	t.Logf("%s: %.2f s", what, took.Seconds())
	if took > 10*time.Second {
		t.Errorf("%s took %s; want a second, and at most ten on a busy machine", what, took)
	}
}

// addBatches adds the n exceptions of a file. It fails if a request, which checks or adds a batch,
// is not answered in batchTime.
func (f *fleet) addBatches(file string, n int) {
	f.Helper()
	c := exec.CommandContext(f.Context(), binary, "exception", "add", "--file", file, "--timeout", batchTime.String(), "--admin", f.one.Admin, "--token-file", f.file("token", f.changeToken()))
	var said strings.Builder
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	begin := time.Now()
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	var checked, longest time.Duration
	last, added := begin, 0
	for lines := bufio.NewScanner(out); lines.Scan(); added++ {
		if added%batch != 0 {
			continue
		}
		now := time.Now()
		if added == 0 {
			checked = now.Sub(begin)
		} else {
			longest = max(longest, now.Sub(last))
		}
		last = now
	}
	if err := c.Wait(); err != nil || added != n {
		f.Fatalf("%d of %d exceptions were added: %v\n%s", added, n, err, said.String())
	}
	f.Logf("%d exceptions: all checked and the first %d added after %s, the others after %s, the slowest batch in %s", n, batch, checked, time.Since(begin), longest)
	if longest > batchTime {
		f.Errorf("a batch took %s; want at most %s", longest, batchTime)
	}
}

// With many exceptions the page shows those that end next, and finds the others.
func TestManyExceptions(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	list := make([]string, *exceptionCount)
	for i := range list {
		until := time.Now().Add(time.Hour + time.Duration(i)*time.Second/100).UTC().Format(time.RFC3339Nano)
		list[i] = fmt.Sprintf(`{"rule":201,"identity":{"act":"comment","uid":"user-%d"},"what":"count","count":9,"until":%q,"note":"bulk"}`, i, until)
	}
	file := f.file("list.json", "["+strings.Join(list, ",")+"]")
	f.addBatches(file, len(list))
	w := enter(t, f.one.Admin, "", desk)
	w.run(emulation.SetCPUThrottlingRate(4))
	begin := time.Now()
	w.visit("#/exceptions")
	w.see("There are more: search for the ones you mean.")
	within(t, fmt.Sprintf("%d exceptions", len(list)), begin)
	w.accessible("many exceptions")
	begin = time.Now()
	w.write("Search exceptions", fmt.Sprintf("UID=user-%d", len(list)-1))
	w.wait(`document.querySelectorAll("main tbody tr").length === 1`)
	within(t, "search", begin)
	w.click("End")
	w.see("No exception contains")
	w.click("Undo: The exception of rule 201 has ended.")
	w.wait(`document.querySelectorAll("main tbody tr").length === 1`)
	w.visit("#/rules/201")
	w.see("More exceptions")
}

// A file that is too large is refused before it is read, and nothing is lost.
func TestLargeFile(t *testing.T) {
	if !*long {
		return
	}
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

// An answer that a text is too long is a sentence that says what to do, also from a proxy, which
// answers with a page of its own.
func TestTooLongIsASentence(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := open(t, f.one.Admin, "", desk, unauthorized, tooLong)
	w.giveToken(readToken)
	w.visit("#/change")
	w.wait(editor)
	long := f.file("long.conf", ruleFile+strings.Repeat("# a comment\n", 5<<20/12))
	w.run(chromedp.SetUploadFiles(`input[type="file"]`, []string{long}, chromedp.ByQuery))
	w.see("it is checked when you press Check")
	w.click("Check")
	w.see("Log in with the token for changes, which admits longer requests, or shorten the text.")
	w.accessible("a text that is too long")

	w.run(chromedp.Evaluate(`window.fetch = () => Promise.resolve(new Response("<html><h1>Too large</h1></html>", { status: 413, headers: { "Content-Type": "text/html" } })); 0`, nil))
	w.visit("#/try")
	w.write("Parameters", "uid=ann")
	w.click("Ask why")
	w.see("A proxy in front of the instance answered 413. Shorten the text.")
}
