package page

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// An operator rolls a version back that refuses everybody in Now, at the change that brought it,
// also after other changes, and in Versions, at the version in force.
func TestRollBackWhereItShows(t *testing.T) {
	if !*long {
		return
	}
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
	w.wait(`document.querySelector("main tbody tr button")?.closest("tr").innerText.startsWith("4")`)
	w.click("Roll back …")
	w.see("Roll back to version 3")
	w.confirm()
	w.see("Version 5 is in force, with the content of version 3.")
	f.until("they may comment again", func() bool { return f.comment("somebody") == http.StatusOK })
}

// What an operator has opened and typed stays when others change what it was opened from. Who loses
// the race learns what the winner changed, and publishes over it if he wants to.
func TestDialogsStayWhenOthersChange(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	f.publish(with(t, "[time=3600; count=4]", "[time=3600; count=5]"))
	f.has("2")
	w := enter(t, f.one.Admin, "", desk)
	note := func(text string) {
		t.Helper()
		w.wait(`document.querySelector("dialog[open] input[name=note]")?.value === ` + quoted(text))
	}
	w.wait(`Array.from(document.querySelectorAll("main .lines li")).some((l) => l.innerText.includes("version 2,") && l.querySelector("button"))`)
	w.click("Roll back …")
	w.write("Note", "while others reset")
	for n := range 6 {
		f.command("reset", "--rule", "202", "act=login", "ip=203.0.113."+strconv.Itoa(n))
		w.see("203.0.113." + strconv.Itoa(n))
		note("while others reset")
	}
	w.click("Cancel")

	w.visit("#/versions")
	w.click("Roll back …")
	w.write("Note", "while others publish")
	f.publish(with(t, "[time=3600; count=4]", "[time=3600; count=6]"))
	w.wait(`document.querySelector("main tbody tr button")?.closest("tr").innerText.startsWith("3")`)
	note("while others publish")
	w.confirm()
	w.see("Version 3 is in force, not 2.")
	w.see("From version 3, in force")
	note("while others publish")
	w.confirm()
	w.see("Version 4 is in force, with the content of version 1.")
	w.see("while others publish")
}

// The menu of a row stays open when others are refused more often and the rows change places, also
// in browsers that cannot move an element without closing it.
func TestMenuStaysWhenRowsMove(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	for _, user := range []string{"ann", "bob", "carol"} {
		f.refuse(user)
	}
	w := enter(t, f.one.Admin, "", desk)
	w.wait(`delete Element.prototype.moveBefore`)
	const users = `Array.from(document.querySelectorAll("main .menu"), (m) => m.getAttribute("aria-label").match(/uid=(\w+)/)?.[1])`
	w.wait(users + `.length === 3`)
	for i := range 3 { // whichever rows are moved
		before := eval[[]string](w, users)
		w.wait(`((e) => { e?.focus(); return !!e; })(Array.from(document.querySelectorAll("main [popovertarget]"))[` + strconv.Itoa(i) + `])`)
		w.press(kb.Enter)
		const focused = `document.activeElement?.innerText === "Reset" && document.activeElement.closest(".menu:popover-open").getAttribute("aria-label")`
		w.wait(focused + `.endsWith(` + quoted("uid="+before[i]) + `)`)
		for range 10 << i { // more than the first
			f.comment(before[2])
		}
		for n := range 3 { // each change makes the page read the rows anew
			address := "203.0.113." + strconv.Itoa(10*i+n)
			f.command("reset", "--rule", "202", "act=login", "ip="+address)
			w.see(address)
		}
		if menu := eval[string](w, focused+` || ""`); !strings.HasSuffix(menu, "uid="+before[i]) {
			t.Errorf("of %v the open menu of %s has become %q", before, before[i], menu)
		}
		w.press(kb.Escape)
		w.wait(users + `[0] === ` + quoted(before[2]))
	}
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

	const comments = "rule : [count] [act=comment; uid=+] [time=3600; count=4]   [result=2; return=201; name=comments]\n"
	for i, text := range []string{with(t, comments, ""), with(t, "[act=comment; uid=+]", "[act=comment; ip=+; uid=+]")} {
		f.publish(text)
		f.has(strconv.Itoa(2*i + 2))
		buttons("bob", "")
		w.wait(row("bob") + `.innerText.includes("rule changed")`)
		f.publish(ruleFile)
		f.has(strconv.Itoa(2*i + 3))
		buttons("bob", "Reset,Except for 2 h,Ban,Ban from everything")
	}
}
