package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a page of the browser, with cookies and storage of its own.
type tab struct {
	*testing.T
	ctx  context.Context
	base string // the address of the page

	mu       sync.Mutex
	problems []string // that the browser reported
}

// look is how a reader looks at the page.
type look struct {
	width, height int64
	dark          bool
}

var desk = look{1280, 900, false}

// The errors that a page causes on purpose: the browser reports each answer that is no
// success.
const (
	badRequest   = "status of 400 "
	unauthorized = "status of 401 "
	tooLong      = "status of 413 "
	conflicting  = "status of 409 "
	tooMany      = "status of 429 "
)

// open opens the page of an instance. What the browser reports fails the test at its end,
// unless it contains one of allowed.
func open(t *testing.T, admin, at string, l look, allowed ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	w := &tab{T: t, ctx: ctx, base: "http://" + admin + "/"}
	t.Cleanup(func() {
		if t.Failed() {
			w.picture("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		cancel()
		w.reports(allowed)
	})
	chromedp.ListenTarget(ctx, w.hear)
	// A tab ends with the context of its first Run, so that this one has no deadline.
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	w.run(network.Enable(), log.Enable(), runtime.Enable(), emulation.SetFocusEmulationEnabled(true), emulation.SetDeviceMetricsOverride(l.width, l.height, 1, l.width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
		chromedp.Navigate(w.base+"ui/"+at))
	w.wait(`document.querySelector("header.head, dialog[open]")`)
	return w
}

// enter opens the page of an instance as somebody with the token for changes.
func enter(t *testing.T, admin, at string, l look, allowed ...string) *tab {
	t.Helper()
	w := open(t, admin, at, l, allowed...)
	w.giveToken(changeToken)
	w.wait(`document.querySelector("header.head") && !document.querySelector("dialog[open]")`)
	return w
}

// reports fails the test for what the browser reported.
func (w *tab) reports(allowed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		is := false
		for _, a := range allowed {
			is = is || strings.Contains(p, a)
		}
		if !is {
			w.Errorf("the browser reports: %s", p)
		}
	}
}

// hear notes what the browser reports.
func (w *tab) hear(event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			w.note("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if len(e.Args) > 0 && (e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning) {
			w.note("console: %s %s", e.Args[0].Value, e.Args[0].Description)
		}
	case *runtime.EventExceptionThrown:
		w.note("exception: %s", e.ExceptionDetails.Error())
	case *network.EventRequestWillBeSent:
		url := e.Request.URL
		if !strings.HasPrefix(url, w.base) && !strings.HasPrefix(url, "blob:") && !strings.HasPrefix(url, "data:") {
			w.note("a request to another host: %s", url)
		}
	}
}

func (w *tab) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// reported reports whether the browser has reported a text.
func (w *tab) reported(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.problems, func(p string) bool { return strings.Contains(p, text) })
}

func (w *tab) run(actions ...chromedp.Action) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, *patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		w.Fatal(err)
	}
}

// awaited makes an expression wait for its promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// eval evaluates an expression.
func eval[T any](w *tab, expression string) T {
	w.Helper()
	var value T
	w.run(chromedp.Evaluate(expression, &value, awaited))
	return value
}

// wait waits until an expression is true.
func (w *tab) wait(expression string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, *patience)
	defer cancel()
	for {
		var is bool
		err := chromedp.Run(ctx, chromedp.Evaluate("!!("+expression+")", &is))
		if err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("waited in vain for %.400s (%v); the page says:\n%.3000s", expression, err, w.text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// text returns what the page shows.
func (w *tab) text() string {
	ctx, cancel := context.WithTimeout(w.ctx, *patience)
	defer cancel()
	var text string
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText`, &text)); err != nil {
		return err.Error()
	}
	return text
}

// picture keeps a picture of the page.
func (w *tab) picture(name string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, *patience)
	defer cancel()
	var png []byte
	err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	if err == nil {
		err = os.WriteFile(filepath.Join(pictures, name+".png"), png, 0o600)
	}
	if err != nil {
		w.Error(err)
	}
}
