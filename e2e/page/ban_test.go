package page

import (
	"net/http"
	"testing"
)

// A client is banned from everything by a row's action: not one rule refuses it but the instances,
// before any rule, until an operator ends it in the list.
func TestBanFromEverything(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := open(t, f.one.Admin, "#/try?p=uid%3Dbob", desk, unauthorized)
	w.see("To see this instance, log in.")
	w.giveToken(changeToken)
	w.see("0 used of 4")
	w.click("Ban from everything")
	w.click("uid=bob") // not the act: everything that bob does
	w.write("Note", "attack")
	w.confirm()
	w.see("Banned from everything.")
	w.see("banned from everything by exception")
	f.until("the ban is in force", func() bool { return f.comment("bob") != http.StatusOK })
	if status := f.comment("ann"); status != http.StatusOK {
		t.Errorf("ann: %d", status)
	}
	w.visit("#/exceptions")
	w.see("attack")
	w.see("banned from everything")
	w.see("No rule bans an identity")
	w.accessible("bans")
	w.click("End")
	f.until("the ban has ended", func() bool { return f.comment("bob") == http.StatusOK })
	w.see("The ban has ended.")
}

// A ban that a rule has opened is in the list with what ends it, also with the default settings, which
// mask whom it concerns. A ban from everything ends it, too.
func TestBansByRules(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.isDefault = true
	f.withFile(with(t, "[act=login; ip=+]    [time=300; count=10; ban=600]", "[act=login; ip=+; uid=+] [time=300; count=1; ban=600]"))
	logIn := func() int { return f.call("/login", "eve", "192.0.2.7") }
	ban := func() {
		t.Helper()
		if logIn(); logIn() == http.StatusOK {
			t.Fatal("the rule opens no ban")
		}
	}
	ban()
	w := open(t, f.one.Admin, "#/exceptions", desk, unauthorized)
	w.see("uid=#")
	w.accessible("bans by rules")
	w.fits("bans by rules")
	w.click("End …")
	w.see("rule 202 (logins)")
	w.confirm()
	w.giveToken(f.changeToken())
	w.see("The counter of rule 202 (logins) starts anew.")
	w.see("No rule bans an identity")
	f.until("the ban is over", func() bool { return logIn() == http.StatusOK })
	ban()
	w.visit("#/")
	w.visit("#/exceptions")
	w.see("uid=#")
	w.click("Add …")
	w.choose("What", "banned from everything")
	w.write("Identity", "uid=eve")
	w.confirm()
	w.see("Banned from everything.")
	w.see("No rule bans an identity")
}
