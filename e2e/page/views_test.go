package page

import (
	"fmt"
	"strings"
	"testing"
)

// hostile are values that a page must not take for anything but text.
var hostile = []string{
	`<img src=x onerror=alert(1)>`,
	`"><script>alert(1)</script>`,
	"a\u202egnp.exe",
	`javascript:alert(1)//{{7*7}}`,
	" blank ",
	"=1+1",
	strings.Repeat("long", 2000),
}

// hostileRules have markup in a comment, routes, conditions and results.
const hostileRules = "# <script>alert(1)</script> \u202e evil\n" + `[params]
uid : header X-User-Id else client-ip

[routes]
POST /api/comments : act=comment
POST /<b>x</b>     : act=<b>

[rules]
rule : [count] [act=comment; uid=+] [time=3600; count=1] [result=2; return=201; name=hostile]
rule : [direct] [act=<b>] [] [result=2; return=202]

[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"<iframe src=javascript:alert(1)>"}
[end]
`

// triedRule refuses on trial what is allowed.
const triedRule = "rule : [count] [act=comment; uid=+] [time=3600; count=1] [result=2; return=203; name=tried]\n"

// views are all views, with a text that each shows.
var views = []struct{ hash, sees string }{
	{"#/", "Rules that refuse"},
	{"#/rules/201", "in 3600 s"},
	{"#/try?p=uid%3Dann", "used of"},
	{"#/change", "Nothing is changed."},
	{"#/", "Trial of version 2: running"},
	{"#/exceptions", "Add …"},
	{"#/versions/1", "no version before"},
	{"#/instances", "extauthz"},
	{"#/log", "Changes by operators"},
}

// Every view is legible at both sizes and in both themes, whatever the values are.
func TestViews(t *testing.T) {
	t.Parallel()
	f := publishedFleet(t, hostileRules)
	for _, user := range append([]string{"ann"}, hostile...) {
		f.refuse(user)
		f.command("exception", "add", "--rule", "201", "act=comment", "uid="+user, "--count", "9", "--for", "2h", "--note", user[:min(len(user), 400)])
	}
	f.command("publish", f.file("rules.conf", strings.Replace(hostileRules, "\n[result]", triedRule+"\n[result]", 1)), "--trial", "1h", "--then", "keep", "--note", hostile[0], "--author", hostile[2])
	for _, user := range hostile {
		f.comment(user)
		f.comment(user)
	}
	looks := []look{{1280, 900, false}, {390, 844, true}} // each size and each theme once
	if *long {
		looks = append(looks, look{1280, 900, true}, look{390, 844, false})
	}
	for i, l := range looks {
		theme := map[bool]string{false: "light", true: "dark"}[l.dark]
		t.Run(fmt.Sprintf("%d-%s", l.width, theme), func(t *testing.T) {
			t.Parallel()
			w := enter(t, f.one.Admin, "", l)
			for _, view := range views {
				name := fmt.Sprintf("%d %s %s", l.width, theme, view.hash)
				w.visit(view.hash)
				w.see(view.sees)
				w.wait(`!document.querySelector(".loading")`)
				if i < 2 {
					w.accessible(name)
				}
				w.fits(name)
				if n := eval[int](w, `document.querySelectorAll("main img, main script, main iframe, main b > b").length`); n > 0 {
					t.Errorf("%s: a value became HTML: %s", name, eval[string](w, `document.querySelector("main img, main script, main iframe").outerHTML`))
				}
				path, _, _ := strings.Cut(strings.TrimPrefix(view.hash, "#/"), "?")
				w.picture(fmt.Sprintf("%d-%s-%s", l.width, theme, strings.ReplaceAll(path, "/", "-")))
			}
			w.visit("#/exceptions")
			w.see("U+202E")
		})
	}
}
