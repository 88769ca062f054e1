package page

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var keep = flag.String("keep", "", "the folder in which the pictures of the three incidents are kept, such as ../../docs/incidents")

// incident is an operator who solves an incident with the mouse and the keyboard, at an instance with
// default settings, and keeps a picture of each step.
type incident struct {
	*tab
	name  string
	steps int
}

// solve has an operator solve an incident within a minute. A person reads for some seconds where the
// test does not.
func solve(t *testing.T, name string, before func(f *fleet), steps func(f *fleet, w *incident)) {
	t.Helper()
	f := newFleet(t)
	f.isDefault = true
	f.published(ruleFile)
	before(f)
	w := &incident{tab: open(t, f.one.Admin, "", look{1024, 640, false}, unauthorized), name: name}
	w.see("Rules that refuse")
	w.wait(`!document.querySelector(".loading")`)
	begin := time.Now()
	steps(f, w)
	took := time.Since(begin)
	t.Logf("%s: %.1f s, %d pictures", name, took.Seconds(), w.steps)
	if took > time.Minute {
		t.Errorf("it took %s; want at most a minute", took)
	}
}

// step keeps a picture of what the page shows before the next step.
func (w *incident) step() {
	w.Helper()
	w.steps++
	w.wait(`!document.querySelector(".loading")`)
	name := w.name + "-" + strconv.Itoa(w.steps)
	w.picture("incident-" + name)
	if *keep == "" {
		return
	}
	w.run(chromedp.ActionFunc(func(ctx context.Context) error {
		picture, err := page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(60).Do(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(*keep, name+".webp"), picture, 0o600)
	}))
}

// point clicks with the mouse on what a person calls by a name, once it is in sight.
func (w *incident) point(name string) {
	w.Helper()
	w.pointAt(`(` + find + `)(` + quoted(name) + `)`)
}

// pointAt clicks with the mouse in the middle of an element.
func (w *incident) pointAt(element string) {
	w.Helper()
	w.wait(element)
	at := eval[[]float64](w.tab, `(() => { const r = `+element+`.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	for _, kind := range []input.MouseType{input.MouseMoved, input.MousePressed, input.MouseReleased} {
		event := input.DispatchMouseEvent(kind, at[0], at[1])
		if kind != input.MouseMoved {
			event = event.WithButton(input.Left).WithClickCount(1)
		}
		w.run(event)
	}
}

// fill clicks on a field and types a text.
func (w *incident) fill(name, text string) {
	w.Helper()
	w.point(name)
	w.wait(`document.activeElement === (` + find + `)(` + quoted(name) + `)`)
	w.press("a", input.ModifierCtrl)
	w.typeText(text)
}

// logIn gives the token for changes, which the page asks for with the first change.
func (w *incident) logIn(f *fleet) {
	w.Helper()
	w.fill("Token", f.changeToken())
	w.fill("Your name", "ann@desk")
	w.step()
	w.point("Log in")
}

// A customer is limited: why, and give him two hours.
func TestCustomerIsLimited(t *testing.T) {
	t.Parallel()
	solve(t, "customer", func(f *fleet) { f.refuse("customer-7") }, func(f *fleet, w *incident) {
		w.step() // the page shows masks; the ticket has the customer's name
		w.point("Rules")
		w.fill("Search rules and identities", "uid=customer-7")
		w.press(kb.Enter)
		w.see("4 used of 4")
		w.step()
		w.point("Except for 2 h")
		w.fill("Note", "ticket 4711")
		w.step()
		w.point("Except")
		w.logIn(f)
		w.see("Excepted from rule 201 (comments).")
		w.see("an exception lets it pass")
		w.step()
		f.until("he may comment", func() bool { return f.comment("customer-7") == http.StatusOK })
	})
}

// A rule refuses everybody: undo it.
func TestRuleRefusesEverybody(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	solve(t, "everybody", func(f *fleet) {
		f.publish(with(t, "[count] [act=comment; uid=+] [time=3600; count=4]", "[direct] [act=comment] []"))
		f.has("2")
		for i := range 20 {
			if f.comment("user-"+strconv.Itoa(i)) == http.StatusOK {
				t.Error("the rule does not refuse everybody")
			}
		}
	}, func(f *fleet, w *incident) {
		w.see("version 2, eve@desk")
		w.see("deny") // the list of rules that refuse shows rule 201 first
		w.step()
		w.point("Roll back …")
		w.see("changed rule 201")
		w.fill("Your name", "ann@desk")
		w.fill("Note", "it refuses everybody")
		w.step()
		w.point("Roll back all instances")
		w.logIn(f)
		w.see("Version 3 is in force, with the content of version 1.")
		w.see("version 3\n") // the head of the page shows it
		w.step()
		f.until("others may comment", func() bool { return f.comment("anybody") == http.StatusOK })
	})
}

// Who attacks the log-in: ban him for an hour.
func TestAttackOnTheLogIn(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	const attacker, user = "198.51.100.66", "203.0.113.7"
	solve(t, "attack", func(f *fleet) {
		for range 40 {
			f.call("/login", "", attacker)
		}
	}, func(f *fleet, w *incident) {
		w.see("ip=#")
		w.step()
		w.point("Actions")
		w.wait(`document.querySelector(".menu:popover-open")`)
		w.step()
		w.point("Ban from everything")
		w.pointAt(`document.querySelector("dialog[open] input[name=ip]")`)
		w.wait(`((e) => { e.focus(); return true; })(document.querySelector("dialog[open] select"))`)
		w.press(kb.ArrowUp)
		w.wait(`document.querySelector("dialog[open] select").selectedOptions[0].text === "1 hour"`)
		w.fill("Note", "attack on the log-in")
		w.step()
		w.pointAt(`document.querySelector("dialog[open] [type=submit]")`)
		w.logIn(f)
		w.see("Banned from everything.")
		w.wait(`Array.from(document.querySelectorAll("main tbody tr")).some((r) => r.innerText.includes("banned from everything"))`)
		w.step()
		f.until("he is refused everywhere", func() bool { return f.call("/api/comments", "", attacker) != http.StatusOK })
		if status := f.call("/login", "", user); status != http.StatusOK {
			t.Errorf("another address: %d", status)
		}
		if list := f.get("exceptions"); strings.Contains(list, attacker) || !strings.Contains(list, "attack on the log-in") {
			t.Errorf("the exceptions: %s", list)
		}
	})
}
