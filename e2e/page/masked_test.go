package page

import (
	"net/http"
	"testing"
)

// With default settings Now masks who is refused. Try refuses a mask as a value and says what to do
// instead, and the actions of a row concern the identity behind its mask.
func TestMaskedIdentity(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.isDefault = true
	f.withFile(ruleFile)
	f.refuse("bob")
	w := open(t, f.one.Admin, "#/try?p=uid%3D%230123456789abcdef", desk, badRequest, unauthorized)
	w.see("is a mask, which stands for a value in lists; name the value itself, act on a row by its handle, or show the values of the parameter in lists by the setting decision_log_params")
	masked := func(view string) { // no link is to a mask
		t.Helper()
		w.visit(view)
		w.see("uid=#")
		w.wait(`!Array.from(document.querySelectorAll("main a"), (a) => a.innerText + a.getAttribute("href")).some((text) => /(#|%23)[0-9a-f]{16}/.test(text))`)
	}
	masked("#/rules/201")
	masked("#/")
	is := func(what string, allowed bool) {
		t.Helper()
		f.until(what, func() bool { return (f.comment("bob") == http.StatusOK) == allowed })
	}
	w.click("Actions")
	w.click("Reset")
	w.confirm()
	w.giveToken(f.changeToken())
	w.see("The counter of rule 201 (comments) starts anew.")
	is("the counter is reset", true)
	w.click("Actions")
	w.click("Ban")
	w.confirm()
	w.see("Banned from rule 201 (comments).")
	is("the ban is in force", false)
	w.click("Undo: Banned from rule 201 (comments).")
	is("the ban has ended", true)
	f.refuse("bob")
	w.wait(`!document.body.innerText.includes("banned ends in")`) // a menu stays as it was opened
	w.click("Actions")
	w.click("Except for 2 h")
	w.confirm()
	w.see("Excepted from rule 201 (comments).")
	is("the exception is in force", true)
	masked("#/log")
	masked("#/rules/201") // which lists its exceptions, too
	masked("#/exceptions")
	w.click("End")
	is("the exception has ended", false)
	w.click("Undo: The exception of rule 201 has ended.")
	is("the exception is there again", true)
}
