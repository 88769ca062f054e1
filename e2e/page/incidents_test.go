package page

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// Somebody who sees the page for the first time, at night, solves each incident by the page
// alone. A person reads for a few seconds where the test does not; each takes two minutes
// at most.
func TestIncidents(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	for range 5 {
		f.refuse("customer-7")
	}
	incident := func(name string, solve func(w *tab)) {
		w := enter(t, f.one.Admin, "", desk)
		w.see("Rules that refuse")
		begin := time.Now()
		solve(w)
		t.Logf("%s: %.1f s", name, time.Since(begin).Seconds())
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("%s took %s", name, took)
		}
	}
	incident("a customer is limited: why, and two hours for him", func(w *tab) {
		w.see("customer-7") // among the most refused users
		w.press("/")
		w.wait(`document.activeElement?.id === "search"`)
		w.typeText("uid=customer-7")
		w.press(kb.Enter)
		w.see("4 used of 4")
		w.click("Except for 2 h")
		w.write("Note", "ticket 4711")
		w.confirm()
		w.see("Excepted from rule 201 (comments).")
		f.until("he may comment", func() bool { return f.comment("customer-7") == http.StatusOK })
	})

	f.publish(with(t, "[count] [act=comment; uid=+] [time=3600; count=4]", "[direct] [act=comment] []"))
	f.has("2")
	if f.comment("anybody") == http.StatusOK {
		t.Error("the rule does not refuse everybody")
	}
	incident("a rule refuses everybody: undo it", func(w *tab) {
		w.click("Versions")
		w.see("from the command")
		w.click("1")
		w.click("Roll back to it …")
		w.see("changed rule 201")
		w.confirm()
		w.see("Version 3 is in force")
		f.until("others may comment", func() bool { return f.comment("anybody") == http.StatusOK })
	})

	for range 40 {
		f.call("/login", "", "198.51.100.66")
	}
	incident("who attacks the log-in", func(w *tab) {
		w.see("logins")
		w.see("198.51.100.66")
		w.click("Rules")
		w.press("/")
		w.wait(`document.activeElement?.id === "search"`)
		w.typeText("login")
		w.wait(`document.querySelectorAll("table.rules tbody tr").length === 1`)
		w.press(kb.Enter)
		w.see("at most 10 in any 300 s")
		w.see("198.51.100.66")
		w.click("Ban")
		w.confirm()
		w.see("Banned from rule 202 (logins).")
	})
}
