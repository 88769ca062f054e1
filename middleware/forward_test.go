package middleware_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

// net/http removes the files of forms that a handler has read, also from a copy of the request.
func TestFilesOfFormsAreRemoved(t *testing.T) {
	const text = `
[params]
uid : header X-Uid
[forward]
X-User-Id : uid
[rules]
rule : [count] [uid=+] [time=90; count=1000] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	for name, of := range map[string]string{
		"a plain request":        strings.Replace(text, "X-User-Id : uid", "", 1),
		"forwarded headers":      text,
		"a receipt":              strings.Replace(strings.Replace(text, "count=1000", "count=1000; settle=60", 1), "X-User-Id : uid", "", 1),
		"a receipt, and headers": strings.Replace(text, "count=1000", "count=1000; settle=60", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(of)}}, rules.Options{})
			if findings.HasErrors() {
				t.Fatal(findings)
			}
			var files atomic.Int32
			h := middleware.New(middleware.Options{Engine: engine.New(set)})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if err := r.ParseMultipartForm(1); err != nil {
					t.Error(err)
				}
				files.Store(int32(len(glob(t))))
				if r.URL.Path == "/panic" {
					panic(http.ErrAbortHandler)
				}
			}))
			s := httptest.NewServer(h)
			for _, path := range []string{"/", "/panic"} {
				var body bytes.Buffer
				form := multipart.NewWriter(&body)
				part, err := form.CreateFormFile("file", "name")
				if err != nil {
					t.Fatal(err)
				}
				part.Write(make([]byte, 1<<20))
				form.Close()
				r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, &body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", form.FormDataContentType())
				r.Header.Set("X-Uid", "ann")
				if res, err := http.DefaultClient.Do(r); err == nil {
					res.Body.Close()
				}
				if files.Swap(0) == 0 {
					t.Fatalf("%s: the handler has no file", path)
				}
			}
			s.Close()
			if left := glob(t); len(left) > 1 { // net/http removes none after a panic
				t.Errorf("%d files are left: %q", len(left), left)
			}
		})
	}
}

// glob returns the files of forms.
func glob(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(os.TempDir(), "multipart-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The handler gets the forwarded headers with the parameters' values, and no spelling of the
// client's own. The caller's request does not change.
func TestForward(t *testing.T) {
	const text = `
[params]
uid : header X-Uid
[forward]
X-User-Id : uid
x-plan    : plan
[rules]
rule : [count] [uid=+; plan=+{~}] [time=90; count=1000] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	for name, mode := range map[string]engine.Mode{"enforce": engine.ModeEnforce, "observe": engine.ModeObserve, "off": engine.ModeOff, "no store": engine.ModeEnforce} {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{middleware.Door: mode})
		var counters store.Store = storetest.Failing{Err: http.ErrServerClosed}
		if name != "no store" {
			counters = nil
		}
		o := options(t, counters, mode)
		if name == "no store" {
			o.Engine = engine.New(set, wiring.CountIn(counters))
		} else {
			o.Engine = engine.New(set, engine.WithModes(modes))
		}
		o.FailOpen = true
		o.Params = func(r *http.Request) map[string]string { return map[string]string{"plan": r.Header.Get("X-Own-Plan")} }
		var got http.Header
		h := middleware.New(o)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
		for _, c := range []struct{ sent, want http.Header }{
			{http.Header{"X-Uid": {"ann"}, "X-Own-Plan": {"gold"}}, http.Header{"X-Uid": {"ann"}, "X-Own-Plan": {"gold"}, "X-User-Id": {"ann"}, "X-Plan": {"gold"}}},
			{http.Header{"X-User-Id": {"mallory", "eve"}, "X-Plan": {"gold"}, "X_user_id": {"mallory"}, "X-User_Id": {"mallory"}, "Accept": {"*/*"}}, http.Header{"Accept": {"*/*"}}},
			{http.Header{"X-Uid": {"ann"}, "X-User-Id": {"mallory"}, "x-user-id": {"mallory"}}, http.Header{"X-Uid": {"ann"}, "X-User-Id": {"ann"}}},
			{http.Header{"X-Uid": {"a\x01b"}, "X-User-Id": {"mallory"}}, http.Header{"X-Uid": {"a\x01b"}}},
		} {
			r := httptest.NewRequest("GET", "/", http.NoBody)
			r.Header = c.sent.Clone()
			got = nil
			h.ServeHTTP(httptest.NewRecorder(), r)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, %v (-want +got):\n%s", name, c.sent, diff)
			}
			if diff := cmp.Diff(c.sent, r.Header); diff != "" {
				t.Errorf("%s: the caller's request changed (-before +after):\n%s", name, diff)
			}
		}
	}
}
