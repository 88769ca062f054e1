package page

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// with returns the rule file with a replacement.
func with(t *testing.T, old, replacement string) string {
	t.Helper()
	if strings.Count(ruleFile, old) != 1 {
		t.Fatalf("%q does not occur once", old)
	}
	return strings.Replace(ruleFile, old, replacement, 1)
}

// An operator changes the rules, with findings as he types, meets somebody else who
// publishes, publishes, and rolls back.
func TestChange(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	w.see("The instance would load these rules.")
	w.edit(with(t, "[count] [act=comment; uid", "[cuont] [act=comment; uid"))
	w.see(`unknown method "cuont"`)
	w.accessible("change with an error")
	w.picture("change")
	w.edit(with(t, "count=4]", "count=40]"))
	w.see("count 4 → 40")

	f.publish(with(t, "count=10;", "count=11;"))
	w.see("Version 2 came into force meanwhile.")
	w.click("Show what it changes")
	w.see("Somebody else has published")
	w.see("count 10 → 11")
	w.see("from the command")
	w.accessible("conflict")
	w.picture("conflict")
	w.click("Go on with my text")
	w.see("Changes to version 2")
	w.see("count 11 → 10")
	w.see("count 4 → 40")
	w.click("Publish …")
	w.write("Note", "more comments")
	w.accessible("publish")
	w.confirm()
	w.see("Version 3 is in force.")
	f.has("3")
	for range 8 {
		if status := f.comment("carl"); status != http.StatusOK {
			t.Errorf("by the new rules: %d", status)
		}
	}
	w.visit("#/versions/1")
	w.see("from the command")
	w.accessible("versions")
	w.click("Roll back to it …")
	w.see("count 40 → 4")
	w.confirm()
	w.see("Version 4 is in force, with the content of version 1.")
	f.until("both instances have version 4", func() bool { return strings.Count(f.get("instances"), `"version": 4`) == 2 })
}

// Two publish at once: the second one gets the conflict, and his text is kept.
func TestConflict(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk, conflicting)
	w.see("The instance would load these rules.")
	w.edit(with(t, "count=4]", "count=40]"))
	w.see("count 4 → 40")
	w.click("Publish …")
	w.write("Note", "mine")
	f.publish(with(t, "count=10;", "count=11;"))
	w.confirm()
	w.see("Somebody else has published")
	w.see("count 10 → 11")
	w.click("Go on with my text")
	w.see("count 11 → 10")
	w.see("count 4 → 40")
	if got := f.get("fleet"); !strings.Contains(got, `"in_force": 2`) {
		t.Errorf("after the conflict: %s", got)
	}
}

// Rules are tried on live requests: the trial is followed and ended, and published.
func TestTrial(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	begin := func(text, note, then string) {
		w.visit("#/change")
		w.see("The instance would load these rules.")
		w.edit(text)
		w.see("changed rule 201")
		w.click("Publish …")
		w.write("Note", note)
		w.click("after a trial: the rules on trial decide live requests, too, and nobody notices")
		w.choose("Then", then)
		w.accessible("publish with a trial")
		w.click("Try at all instances")
	}
	begin(with(t, "count=4]", "count=1]"), "too strict", "keep the version in force")
	w.see("Trial of version 2: running")
	w.see("then the version in force stays")
	for range 3 {
		if status := f.comment("dora"); status != http.StatusOK {
			t.Errorf("during the trial: %d", status)
		}
	}
	// The counter of the trial begins as a copy of the one in force, which counts meanwhile.
	w.wait(`/Of 3 requests.* [23] newly refused/.test(document.body.innerText)`)
	w.accessible("trial")
	w.picture("trial")
	w.click("End the trial")
	w.see("Trial of version 2: ended")

	begin(with(t, "count=4]", "count=6]"), "two more", "ask")
	w.see("Trial of version 3: running")
	w.click("End the trial")
	w.see("Trial of version 3: ended")
	w.click("Publish it …")
	w.see("count 4 → 6")
	w.confirm()
	w.see("Version 4 is in force, with the content of version 3.")
	f.has("4")
	for range 6 {
		if status := f.comment("emil"); status != http.StatusOK {
			t.Errorf("by the tried rules: %d", status)
		}
	}
}

// The requests of the decision log show who would notice a change, before it is published.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	for range 5 {
		f.comment("dora")
	}
	f.until("the decision log has the comments", func() bool {
		text, err := os.ReadFile(f.log)
		return err == nil && bytes.Count(text, []byte("\n")) == 5
	})
	w := enter(t, f.one.Admin, "#/change", desk)
	w.edit(with(t, "count=4]", "count=2]"))
	w.see("count 4 → 2")
	w.choose("Replay the last", "hour")
	w.click("Replay")
	w.wait(`/Of 5 recorded requests.* 2 newly refused, 0 newly allowed/.test(document.body.innerText)`)
	w.see("act=comment uid=dora")
	w.accessible("replay")
	w.fits("replay")
	w.picture("replay")
	w.edit(with(t, "count=4]", "count=5]"))
	w.see("count 4 → 5")
	w.see("Replay shows what your text would have decided") // not the answer about the earlier text
	w.click("Replay")
	w.wait(`/Of 5 recorded requests.* 0 newly refused, 1 newly allowed/.test(document.body.innerText)`)
}

// What is typed while the view asks for the rules in force stays.
func TestTypedWhileLoading(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	w.see("The instance would load these rules.")
	w.visit("#/log")
	w.holdRequests()
	w.visit("#/change")
	w.wait(`isHeld()`)
	w.edit(with(t, "count=4]", "count=40]"))
	w.wait(`document.querySelector("nav .dot")`) // the text is changed
	w.release()
	w.see("count 4 → 40")
	if !eval[bool](w, `!!document.querySelector("nav .dot")`) {
		t.Error("what was typed is lost")
	}
}

// holdRequests holds the requests of the page until release. Requests after pass are not
// held.
func (w *tab) holdRequests() {
	w.Helper()
	w.wait(`(() => {
  const ask = fetch, held = [];
  globalThis.fetch = (url, o) => new Promise((done) => held.push(() => ask(url, o).then((r) => { done(r); return r.status; })));
  globalThis.isHeld = () => held.length > 0;
  globalThis.pass = () => { globalThis.fetch = ask; return true; };
  globalThis.release = () => pass() && Promise.all(held.map((go) => go())).then(() => ask("/api/v1/session")).then((r) => r.status);
  return true;
})()`)
}

// release sends the requests that are held, and waits for their answers.
func (w *tab) release() {
	w.Helper()
	if status := eval[int](w, `release()`); status != http.StatusOK {
		w.Fatalf("after the held requests /api/v1/session answers %d; want 200", status)
	}
}

// A late answer to an earlier question does not replace the answer to the last one.
func TestLateAnswer(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/log", desk)
	w.see("Changes by operators")
	w.holdRequests()
	w.visit("#/try?p=uid%3Dann")
	w.wait(`isHeld()`)
	w.wait(`pass()`)
	w.visit("#/try?p=uid%3Dbob")
	const asked = `document.querySelector(".answer .card .identity")?.textContent`
	w.wait(asked + `?.includes("uid=bob")`)
	w.release()
	if got := eval[string](w, asked); !strings.Contains(got, "uid=bob") {
		t.Errorf("the answer is of %s; want that of uid=bob", got)
	}
}

// Keys that come faster than the page draws stay in their order.
func TestFastTyping(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	w.see("The instance would load these rules.")
	w.wait(`((e) => { e?.focus(); return !!e; })(` + editor + `)`)
	w.press(kb.Home, input.ModifierCtrl)
	typed := eval[string](w, `(async () => {
  for (const key of "# as fast") {
    document.execCommand("insertText", false, key);
    for (let i = 0; i < 20; i++) await null; // the page notices, and does not draw yet
  }
  return `+editor+`.querySelector(".cm-line").textContent;
})()`)
	if want := "# as fast[params]"; typed != want {
		t.Errorf("the first line is %q; want %q", typed, want)
	}
}

// Redis is away while somebody publishes: the page says so, and keeps the text.
func TestRedisAwayWhilePublishing(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk, "status of 50")
	w.see("The instance would load these rules.")
	w.edit(with(t, "count=4]", "count=40]"))
	w.see("count 4 → 40")
	w.click("Publish …")
	w.write("Note", "mine")
	if err := f.redis.Stop(); err != nil {
		t.Fatal(err)
	}
	w.confirm()
	w.wait(`document.querySelector("dialog[open] .failure")`)
	f.comment("fred") // a call finds out that Redis is away
	w.picture("redis-away")
	w.click("Cancel")
	w.see("Redis is away.")
	w.see("count 4 → 40")
	redis, err := f.stage.RestartRedis(f.redis)
	if err != nil {
		t.Fatal(err)
	}
	f.redis = redis
	f.until("Redis is back", func() bool { r, err := f.one.Readyz(); return err == nil && r.Store == "redis" })
	w.wait(`!document.body.innerText.includes("Redis is away.")`)
	w.see("count 4 → 40")
}
