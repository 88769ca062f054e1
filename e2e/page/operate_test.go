package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// curl is the request of a comment, as a browser copies it.
const curl = `curl 'http://api.example/api/comments' -X POST -H 'X-User-Id: ann' --data-raw '{"text":"hi"}' --compressed`

// An operator sees who is limited and why, resets, excepts and bans him, and undoes it.
func TestOperate(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, strings.Replace(ruleFile, "[rules]", "[forward]\nX-User-Id : uid\n\n[rules]", 1))
	f.refuse("ann")
	w := enter(t, f.one.Admin, "", desk)
	w.see("Rules that refuse")
	w.visit("#/rules/201")
	w.see("at most 4 in 3600 s")
	w.visit("#/try")
	w.write("Paste a curl command", curl)
	w.write("Client address", "203.0.113.7")
	w.click("Ask why")
	w.see("4 used of 4")
	w.see("header x-user-id") // where a parameter comes from
	w.see("Retry-After")      // a header for the client
	w.accessible("try")

	w.click("Reset")
	w.write("Note", "he asked")
	w.accessible("reset")
	w.confirm()
	w.see("The counter of rule 201 (comments) starts anew.")
	w.see("0 used of 4")
	w.see("Headers for the application")
	if status := f.comment("ann"); status != http.StatusOK {
		t.Errorf("after the reset: %d", status)
	}
	w.click("Except for 2 h")
	w.write("Note", "migration")
	w.confirm()
	w.see("an exception lets it pass")
	for range 6 {
		f.until("the exception is in force", func() bool { return f.comment("ann") == http.StatusOK })
	}
	w.visit("#/exceptions")
	w.see("migration")
	w.accessible("exceptions")
	w.click("End")
	w.see("Every rule applies")
	w.click("Undo: The exception of rule 201 has ended.")
	w.see("migration")

	w.visit("#/try?p=uid%3Dbob")
	w.see("0 used of 4")
	w.click("Ban")
	w.confirm()
	w.see("Banned from rule 201")
	f.until("the ban is in force", func() bool { return f.comment("bob") != http.StatusOK })
	w.click("Undo: Banned from rule 201 (comments).")
	f.until("the ban is undone", func() bool { return f.comment("bob") == http.StatusOK })

	w.visit("#/instances")
	w.choose("Mode of extauthz", "observe")
	w.click("Set to observe")
	w.see("Not everything is enforced at this instance")
	w.accessible("modes")
	w.click("Undo: The door extauthz of this instance: observe.")
	f.until("the mode is undone", func() bool { return !strings.Contains(f.get("modes"), "observe") })
	w.choose("Mode of koala", "off")
	w.click("at all instances")
	w.accessible("modes of all instances")
	w.click("Set to off")
	f.until("all instances have the mode", func() bool { return strings.Count(f.get("instances"), `"koala": "off"`) == 2 })
	w.click("Undo: The door koala of all instances: off.")
	f.until("all instances have the mode of before", func() bool { return strings.Count(f.get("instances"), `"koala": "enforce"`) == 2 })
	w.visit("#/log")
	w.see("koala off, at all instances")
	w.see("he asked")
	w.see("exception remove")
	w.accessible("log")
	if audit := f.get("audit"); !strings.Contains(audit, "he asked") || !strings.Contains(audit, "ann@desk") {
		t.Errorf("the audit trail: %s", audit)
	}
}

// Everything can be done with the keyboard.
func TestKeyboard(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	f.refuse("ann")
	w := open(t, f.one.Admin, "", desk)
	w.see("To see this instance, log in.")
	w.wait(`document.activeElement.name === "token"`)
	w.typeText(changeToken)
	w.press(kb.Tab)
	w.typeText("ann@desk")
	w.confirm()
	w.see("Rules that refuse")
	w.press("?")
	w.see("Next and previous row")
	w.press(kb.Escape)
	w.wait(`!document.querySelector("dialog[open]")`)
	search := func(text string) {
		w.press("/")
		w.wait(`document.activeElement?.id === "search"`)
		w.press("a", input.ModifierCtrl)
		w.typeText(text)
	}
	search("logins")
	w.wait(`document.querySelectorAll("table.rules tbody tr").length === 1`)
	w.press(kb.Enter)
	w.see("at most 10 in any 300 s")
	search("uid=ann")
	w.press(kb.Enter)
	w.see("4 used of 4")
	w.tabTo("Except for 2 h")
	w.press(kb.Enter)
	w.see("Except an identity")
	w.typeText("by keys") // the note has the focus
	w.confirm()
	w.see("Excepted from rule 201 (comments).")
	w.goTo("e", "#/exceptions")
	w.see("by keys")
	w.press("j")
	w.wait(`document.activeElement?.closest("tbody tr")`)

	w.goTo("c", "#/change")
	w.see("would load")
	w.wait(editor)
	w.tabTo("Rule file")
	w.press("a", input.ModifierCtrl)
	w.typeText(with(t, "count=4]", "count=5]"))
	w.see("count 4 → 5")
	w.press(kb.Enter, input.ModifierCtrl)
	w.see("Publish over version 1")
	w.typeText("one more")
	w.confirm()
	w.see("Version 2 is in force.")
}

// tabTo moves the focus to what has a name, with the key Tab.
func (w *tab) tabTo(name string) {
	w.Helper()
	const focused = `(() => { let e = document.activeElement; while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement; return e?.getAttribute("aria-label") ?? e?.innerText ?? ""; })()`
	for range 80 {
		if eval[string](w, focused) == name {
			return
		}
		w.press(kb.Tab)
	}
	w.Fatalf("Tab does not lead to %q; the page says:\n%.2000s", name, w.text())
}

// goTo opens a view by its keys, which the page takes together if they come within 1.5 s. A
// machine that stalls meanwhile needs another try.
func (w *tab) goTo(key, hash string) {
	w.Helper()
	w.wait(`!document.querySelector("dialog[open]")`)
	for {
		begin := time.Now()
		w.press("g")
		w.press(key)
		if eval[string](w, `location.hash`) == hash {
			break
		}
		if took := time.Since(begin); took < time.Second {
			w.Fatalf("g %s pressed within %v leads to %s; want %s", key, took, eval[string](w, `location.hash`), hash)
		}
	}
	w.drawn(hash)
}
