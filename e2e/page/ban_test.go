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
