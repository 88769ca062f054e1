package page

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// quoted returns a text as JavaScript has it.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(b)
}

// see waits until the page shows a text.
func (w *tab) see(text string) {
	w.Helper()
	w.wait(`document.body.innerText.includes(` + quoted(text) + `)`)
}

// find is a function that finds what a person calls by a name, which is its label, its text
// or its placeholder, and can reach with the mouse: nothing else covers it, such as a dialog.
const find = `(name) => {
  const called = (e) => [e.getAttribute("aria-label"), e.closest("label")?.querySelector("span")?.textContent, e.type === "radio" || e.type === "checkbox" ? e.closest("label")?.innerText : "", e.innerText, e.placeholder].some((t) => t?.trim() === name);
  const isReachable = (e) => {
    if (e.disabled) return false;
    e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const r = e.getBoundingClientRect(), top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
    return r.width > 0 && r.height > 0 && (e.contains(top) || e.closest("label")?.contains(top));
  };
  return Array.from(document.querySelectorAll("button, a, input, select, textarea, summary")).find((e) => called(e) && isReachable(e));
}`

// click clicks on what a person calls by a name. It finds the element and clicks in one
// step, in which the page cannot move it away.
func (w *tab) click(name string) {
	w.Helper()
	w.wait(`((e) => { if (!e) return false; e.focus(); e.click(); return true; })((` + find + `)(` + quoted(name) + `))`)
}

// write replaces the text of a field.
func (w *tab) write(name, text string) {
	w.Helper()
	w.wait(`((e) => { if (!e) return false; e.focus(); e.select(); return document.activeElement === e; })((` + find + `)(` + quoted(name) + `))`)
	w.typeText(text)
	w.wait(`document.activeElement.value === ` + quoted(text))
}

// choose chooses an option of a list by its text.
func (w *tab) choose(name, option string) {
	w.Helper()
	w.wait(`((e) => {
  const o = Array.from(e?.options ?? []).find((o) => o.text === ` + quoted(option) + `);
  if (!o) return false;
  e.focus();
  e.value = o.value;
  e.dispatchEvent(new Event("change", { bubbles: true }));
  return true;
})((` + find + `)(` + quoted(name) + `))`)
}

// typeText types a text where the focus is.
func (w *tab) typeText(text string) { w.Helper(); w.run(input.InsertText(text)) }

// press presses a key. As with a keyboard, a page that prevents the default of a key keeps
// its character from the field that then has the focus.
func (w *tab) press(key string, modifiers ...input.Modifier) {
	w.Helper()
	var down, up *input.DispatchKeyEventParams
	for _, e := range kb.Encode([]rune(key)[0]) {
		switch e.Type {
		case input.KeyChar:
			if len(modifiers) == 0 {
				down.Type, down.Text, down.UnmodifiedText = input.KeyDown, e.Text, e.UnmodifiedText
			}
		case input.KeyUp:
			up = e
		default:
			down = e
		}
	}
	for _, m := range modifiers {
		down.Modifiers |= m
		up.Modifiers |= m
	}
	w.run(down, up)
}

// confirm confirms the dialog that has the focus, with Enter.
func (w *tab) confirm() {
	w.Helper()
	w.wait(`document.activeElement?.closest("dialog[open]")`)
	w.press(kb.Enter)
}

// visit opens a view.
func (w *tab) visit(hash string) {
	w.Helper()
	w.run(chromedp.Evaluate(`location.hash = `+quoted(hash), nil))
	w.drawn(hash)
}

// drawn waits until the page has drawn a view. Until then it shows the previous view, which
// may contain the same words.
func (w *tab) drawn(hash string) {
	w.Helper()
	view, _, _ := strings.Cut(strings.TrimPrefix(hash, "#/"), "?")
	view, _, _ = strings.Cut(view, "/")
	w.wait(`document.querySelector("nav [aria-current=page]")?.getAttribute("href") === ` + quoted("#/"+view))
}

// giveToken fills in the dialog that asks for a token.
func (w *tab) giveToken(token string) {
	w.Helper()
	w.write("Token", token)
	w.write("Your name", "ann@desk")
	w.run(chromedp.Evaluate(`document.querySelector("dialog[open] form").requestSubmit()`, nil))
}

// The editor is in a shadow root.
const editor = `document.querySelector(".editor")?.shadowRoot?.querySelector(".cm-content")`

// edit replaces the text in the editor.
func (w *tab) edit(text string) {
	w.Helper()
	w.wait(`((e) => { e?.focus(); return !!e; })(` + editor + `)`)
	w.press("a", input.ModifierCtrl)
	w.typeText(text)
}

// readAxe reads axe from the packages of the page.
var readAxe = sync.OnceValues(func() (string, error) {
	script, err := os.ReadFile("../../.tools/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		return "", fmt.Errorf("axe is missing; run make tools: %w", err)
	}
	return string(script), nil
})

// accessible reports what axe finds in a view.
func (w *tab) accessible(view string) {
	w.Helper()
	if !eval[bool](w, `"axe" in window`) {
		axe, err := readAxe()
		if err != nil {
			w.Fatal(err)
		}
		w.run(chromedp.Evaluate(axe, nil)) // the policy of the page does not apply to the driver
	}
	const rules = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	for _, f := range eval[[]string](w, `axe.run(document, { runOnly: `+rules+`, resultTypes: ["violations"] })
  .then((r) => r.violations.flatMap((v) => v.nodes.map((n) => [v.id, v.help, n.target.join(" "), n.any[0]?.message ?? ""].join(": "))))`) {
		w.Errorf("%s: axe: %s", view, f)
	}
}

// fits reports what reaches beyond the window or its panel and cannot be scrolled to.
func (w *tab) fits(view string) {
	w.Helper()
	if out := eval[string](w, outside); out != "" {
		w.Errorf("%s: outside of its panel: %s", view, out)
	}
}

// outside is what is outside of its panel.
const outside = `(() => {
  const scrolls = (e) => { for (let p = e.parentElement; p && !p.classList.contains("panel"); p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
  const right = (e) => e.getBoundingClientRect().right;
  const e = Array.from(document.querySelectorAll("main .panel, main .panel *")).find((e) => right(e) > Math.min(right(e.closest(".panel")), document.documentElement.clientWidth) + 1 && !scrolls(e));
  return e?.outerHTML.slice(0, 300) ?? "";
})()`
