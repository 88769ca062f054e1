package page

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// An operator rolls a version back that refuses everybody in Now, at the change that brought it,
// also after other changes, and in Versions, at the version in force.
func TestRollBackWhereItShows(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "", desk)
	w.see("Last changes")
	w.wait(`!document.querySelector(".loading")`)
	if eval[bool](w, `document.body.innerText.includes("Roll back")`) {
		t.Error("the first version offers a way back")
	}
	strict := with(t, "[count] [act=comment; uid=+] [time=3600; count=4]", "[direct] [act=comment] []")
	f.publish(strict)
	f.has("2")
	for range 6 { // later changes do not hide the version in force
		f.command("reset", "--rule", "202", "act=login", "ip=203.0.113.9")
	}
	w.see("version 2, eve@desk")
	w.wait(`Array.from(document.querySelectorAll("main .lines li")).some((l) => l.innerText.includes("version 2,") && l.querySelector("button"))`)
	w.accessible("now with a way back")
	w.click("Roll back …")
	w.see("Roll back to version 1")
	w.see("changed rule 201")
	w.confirm()
	w.see("Version 3 is in force, with the content of version 1.")
	f.until("others may comment", func() bool { return f.comment("anybody") == http.StatusOK })

	f.publish(strict)
	f.has("4")
	w.visit("#/versions")
	w.see("eve@desk")
	w.wait(`document.querySelector("main tbody tr button")?.closest("tr").innerText.includes("in force")`)
	w.click("Roll back …")
	w.see("Roll back to version 3")
	w.confirm()
	w.see("Version 5 is in force, with the content of version 3.")
	f.until("they may comment again", func() bool { return f.comment("somebody") == http.StatusOK })
}

// The row of an identity with an exception says so and offers its end, and a row of a rule that is
// gone has no buttons.
func TestRowsSayWhatApplies(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	f.refuse("ann")
	f.refuse("bob")
	w := enter(t, f.one.Admin, "", desk)
	row := func(user string) string {
		return `Array.from(document.querySelectorAll("main tr")).find((r) => r.innerText.includes("` + user + `"))`
	}
	buttons := func(user, list string) {
		t.Helper()
		w.wait(`Array.from(` + row(user) + `?.querySelectorAll(".menu button") ?? [], (b) => b.innerText).join() === ` + quoted(list))
	}
	buttons("ann", "Reset,Except for 2 h,Ban,Ban from everything")
	f.command("exception", "add", "--rule", "201", "act=comment", "uid=ann", "--allow", "--for", "2h")
	f.command("exception", "ban", "uid=bob", "--for", "1h")
	buttons("ann", "Reset,End exception,Ban from everything")
	w.wait(row("ann") + `.innerText.includes("passes")`)
	buttons("bob", "End ban")
	w.wait(row("bob") + `.innerText.includes("banned from everything")`)
	w.accessible("rows with exceptions")
	w.fits("rows with exceptions")
	w.wait(`((e) => { e?.focus(); return !!e; })(` + row("bob") + `?.querySelector("button"))`)
	w.press(kb.Enter)
	w.wait(`document.activeElement?.innerText === "End ban"`)
	w.accessible("the actions of a row")
	w.press(kb.Enter)
	w.see("The ban has ended.")
	buttons("bob", "Reset,Except for 2 h,Ban,Ban from everything")

	f.publish(with(t, "[act=comment; uid=+]", "[act=comment; ip=+; uid=+]"))
	f.has("2")
	buttons("bob", "")
	w.wait(row("bob") + `.innerText.includes("rule changed")`)
}
