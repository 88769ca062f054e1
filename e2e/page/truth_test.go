package page

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// banners are the sentences above a view.
const banners = `document.querySelector(".warnings")?.innerText`

// With Redis away one banner says so, and none is about newer rules. An emptied Redis is named as
// such, and the version is published again from the banner.
func TestRedisAwayAndEmptied(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "", desk, "status of 50")
	w.see("Rules that refuse")
	if err := f.redis.Stop(); err != nil {
		t.Fatal(err)
	}
	w.wait(banners + `.includes("Redis is away.")`)
	f.comment("fred") // a call finds out, too
	w.wait(banners + `.includes("counts in its own memory")`)
	if got := eval[string](w, banners); strings.Contains(got, "Newer rules") || strings.Count(got, "\n") > 0 {
		t.Errorf("with Redis away the page says:\n%s", got)
	}
	redis, err := f.stage.RestartRedis(f.redis)
	if err != nil {
		t.Fatal(err)
	}
	f.redis = redis // it is empty
	w.wait(banners + `.includes("Redis has lost the published rules")`)
	w.wait(`!` + banners + `.includes("Redis is away.")`)
	if got := eval[string](w, banners); strings.Contains(got, "Newer rules") {
		t.Errorf("with an emptied Redis the page says:\n%s", got)
	}
	w.accessible("an emptied Redis")
	w.picture("redis-emptied")
	w.click("Publish version 1 again …")
	w.see("The rules stay the same.")
	w.confirm()
	w.see("is in force, with the content of version 1.")
	w.wait(banners + `.trim() === ""`)
}

// An instance that is away is one sentence. The figures of before stay, in grey.
func TestInstanceAway(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	f.refuse("ann")
	w := enter(t, f.one.Admin, "", desk, "net::ERR")
	const figure = `document.querySelectorAll(".tile b")[2]?.textContent`
	w.wait(figure + `.includes("20.0 %")`)
	colour := func() string {
		return eval[string](w, `getComputedStyle(document.querySelectorAll(".tile b")[2]).color`)
	}
	before := colour()
	w.wait(`Array.from(document.querySelectorAll(".tile span:not(.num, .hour)")).every((e) => e.textContent.endsWith(", here"))`)
	if err := f.one.Stop(); err != nil {
		t.Fatal(err)
	}
	w.wait(banners + `.includes("The instance does not answer")`)
	if got := eval[string](w, banners); strings.Count(got, ".") != 1 || strings.Contains(got, "\n") {
		t.Errorf("more than one sentence: %s", got)
	}
	if got := eval[string](w, figure); got != "20.0 %" {
		t.Errorf("the figure of before is %q; want 20.0 %%", got)
	}
	if colour() == before {
		t.Error("the old figure is not grey")
	}
	w.accessible("an instance that is away")
}

// With published rules the tiles of the last hour are about all instances.
func TestTilesSayWhere(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "", desk)
	w.see("decisions per second, here")
	w.see("refused in the last 5 minutes, everywhere")
}

// The marks in the editor are the findings of the last check.
func TestEditorMarks(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/change", desk)
	const marks = `document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-lint-marker-error, .cm-lintRange-error").length`
	w.see("The instance would load these rules.")
	w.edit(with(t, "count=4]", "count=x]"))
	w.see("1 error")
	w.wait(marks + ` > 0`)
	w.edit(ruleFile)
	w.see("The instance would load these rules.")
	w.wait(marks + ` === 0`)
}

// Doors with similar names have readable ones where modes are set.
func TestNamesOfDoors(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/instances", desk)
	w.see("Envoy, ext_authz over gRPC")
	w.see("Envoy, ext_authz over HTTP")
	w.see("extauthz and ext-authz are two doors")
	w.choose("Mode of ext-authz", "observe")
	w.see("Set ext-authz (Envoy, ext_authz over HTTP) to observe")
	w.click("Set to observe")
	w.wait(banners + `.includes("ext-authz (Envoy, ext_authz over HTTP) observe")`)
}

// Who publishes over a trial of somebody else reads whose it is.
func TestPublishOverTrial(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := publishedFleet(t, ruleFile)
	f.command("publish", f.file("rules.conf", with(t, "count=4]", "count=6]")), "--trial", "1h", "--then", "keep", "--note", "two more", "--author", "eve@desk")
	w := enter(t, f.one.Admin, "#/change", desk)
	w.see("The instance would load these rules.")
	w.edit(with(t, "count=4]", "count=5]"))
	w.see("count 4 → 5")
	w.click("Publish …")
	w.see("Version 2 is on trial, published by eve@desk: “two more”. Publishing ends the trial.")
	w.accessible("publish over a trial")
}

// The search field says that it takes an identity, before and while it is typed.
func TestSearchTakesIdentities(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := enter(t, f.one.Admin, "#/rules", desk)
	w.see("3 rules")
	w.press("/")
	w.wait(`document.activeElement?.id === "search" && document.activeElement.placeholder.includes("NAME=VALUE")`)
	w.typeText("uid=zoe")
	w.see("Enter asks why uid=zoe is limited.")
	w.press(kb.Enter)
	w.see("0 used of 4")
}

// On a telephone a row has one button, each action of its menu has a line of its own, and the tab of
// the view is in sight.
func TestTelephone(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	f.refuse("ann")
	w := enter(t, f.one.Admin, "", look{390, 844, false})
	w.wait(`Array.from(document.querySelectorAll("main tbody tr")).every((r) => Array.from(r.querySelectorAll("button")).filter((b) => b.checkVisibility()).length <= 1)`)
	w.click("Actions")
	w.wait(`new Set(Array.from(document.querySelectorAll(".menu:popover-open button"), (b) => b.getBoundingClientRect().top)).size === 4`)
	w.wait(`Array.from(document.querySelectorAll(".menu:popover-open button")).every((b) => { const r = b.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth && r.bottom <= innerHeight; })`)
	w.picture("390-now-actions")
	w.press(kb.Escape)
	for _, hash := range []string{"#/log", "#/", "#/instances"} {
		w.visit(hash)
		w.wait(`(() => { const r = document.querySelector("nav [aria-current]").getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth; })()`)
	}
}
