package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A session that ends keeps what was typed, and the change goes on.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := open(t, f.one.Admin, "", desk, unauthorized)
	w.see("To see this instance, log in.")
	w.giveToken("wrong")
	w.see("neither admin_token nor admin_read_token")
	w.giveToken(changeToken)
	w.visit("#/change")
	w.edit(with(t, "count=4]", "count=40]"))
	w.see("count 4 → 40")
	w.visit("#/try?p=uid%3Dann")
	w.see("0 used of 4")
	w.click("Reset")
	w.write("Note", "kept")
	if ended := eval[int](w, `fetch("/api/v1/session", {method: "DELETE"}).then((r) => r.status)`); ended != http.StatusOK {
		t.Fatalf("ending the session: %d", ended)
	}
	w.press(kb.Enter)
	w.see("Your session has ended.")
	w.giveToken(changeToken)
	w.see("The counter of rule 201 (comments) starts anew.")
	if audit := f.get("audit"); !strings.Contains(audit, "kept") {
		t.Errorf("the audit trail: %s", audit)
	}
	w.run(chromedp.Reload())
	w.visit("#/change")
	w.see("count 4 → 40") // also after a reload
}

// Somebody with the token for reading sees everything, and changes nothing.
func TestReader(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	f.refuse("ann")
	w := open(t, f.one.Admin, "", desk, unauthorized)
	w.giveToken(readToken)
	w.see("Rules that refuse")
	w.visit("#/try?p=uid%3Dann")
	w.see("4 used of 4")
	w.click("Reset")
	w.write("Note", "let me")
	w.confirm()
	w.see("Changes need the token for changes.")
	w.giveToken(readToken)
	w.see("This token is for reading alone")
	w.accessible("log in")
	if f.comment("ann") == http.StatusOK {
		t.Error("the counter is reset")
	}
	if audit := f.get("audit"); !strings.Contains(audit, "[]") {
		t.Errorf("the audit trail: %s", audit)
	}
}

// The pages of other sites change nothing with the session of an operator, and a host name
// that leads to the instance shows nothing.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "", desk, "a request to another host", "status of 4", "blocked by CORS", "Cross-Origin", "X-Frame-Options", "ERR_")
	api := "http://" + f.one.Admin + "/api/v1/"
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, `<title>other</title><form method="post" action="%[1]smodes" enctype="text/plain" target="f"><input name='{"extauthz":"off","x":"' value='"}'></form><iframe name="f"></iframe>
<script>
document.forms[0].submit();
const ask = (o) => fetch("%[1]smodes", { method: "POST", credentials: "include", body: '{"extauthz":"off"}', ...o }).then((r) => "answered " + r.type, () => "failed");
Promise.all([ask({ mode: "no-cors" }), ask({ mode: "cors", headers: { "Content-Type": "application/json" } }),
  fetch("%[1]srules", { credentials: "include" }).then((r) => r.text()).then((t) => "read " + t.length, () => "failed")]).then((all) => { document.title = all.join(", "); });
</script>`, api)
	}))
	defer site.Close()
	w.run(chromedp.Navigate(site.URL))
	w.wait(`document.title !== "other"`)
	if title := eval[string](w, `document.title`); title != "answered opaque, failed, failed" {
		t.Errorf("another site: %s", title)
	}
	if modes := f.get("modes"); strings.Contains(modes, "off") {
		t.Errorf("another site has changed a mode: %s", modes)
	}
	_, port, _ := strings.Cut(f.one.Admin, ":")
	w.run(chromedp.Navigate("http://" + evil + ":" + port + "/ui/"))
	if text := w.text(); strings.Contains(text, "koalagate") && strings.Contains(text, "Log in") || !strings.Contains(text, "admin_hosts") {
		t.Errorf("by another name: %s", text)
	}
}

// With rules of files the page checks, and does not publish. With a key for signatures it
// leaves publishing to the command.
func TestWithoutPublishing(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	w.edit(with(t, "count=4]", "count=40]"))
	w.see("count 4 → 40")
	w.see("the page cannot publish them")
	if strings.Contains(w.text(), "Publish …") {
		t.Error("it offers to publish rules of files")
	}
	w.visit("#/instances")
	w.see("from files")
}

// A browser whose clock is wrong shows times by the clock of the instances, and makes
// exceptions for the time that it states.
func TestClockOfTheBrowser(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "", desk)
	w.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`const right = Date.now; Date.now = () => right() - 20 * 60_000;`).Do(ctx)
		return err
	}), chromedp.Reload())
	w.wait(`Date.now() < performance.timeOrigin`)
	w.visit("#/try?p=uid%3Dann")
	w.see("0 used of 4")
	w.click("Ban")
	w.choose("For", "15 minutes") // by its own clock the browser would ask for one that has ended
	w.write("Note", "a quarter of an hour")
	w.confirm()
	w.see("Banned from rule 201 (comments).")
	w.visit("#/exceptions")
	w.wait(`/^in 1[45] m/.test(document.querySelector("main tbody time")?.textContent)`)
	w.visit("#/log")
	w.wait(`/^(now|[0-9]+ s ago|1 m)/.test(document.querySelector("main tbody time")?.textContent)`)
}
