package koala_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/koala"
)

// FuzzCall sends arbitrary queries and forms to every path. Every status must be a known
// one and every reply JSON.
func FuzzCall(f *testing.F) {
	paths := []string{"/rule/browse", "/rule/take", "/rule/browse_complete", "/rule/update", "/rule/refund", "/rule/feedback", "/rule/value", "/rule/reset", "/multi/browse", "/monitor/alive"}
	for i := range paths {
		f.Add(uint8(i), "act=post&uid=1&_hits=2", "")
		f.Add(uint8(i), "&x&%zz=%&=&_writeThrough=yes&rule_no=201", "uid=%ff&_feedbackType=erase2")
		f.Add(uint8(i), `argsJson=[{"Id":"\u0000","Arg":"act%3Dpost%26uid%3D1"},{"Arg":"a=%2"}]`, "_hits=0")
	}
	h := koala.New(options(f))
	known := []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge}
	f.Fuzz(func(t *testing.T, path uint8, query, form string) {
		r := httptest.NewRequest("POST", paths[int(path)%len(paths)], strings.NewReader(form))
		r.URL = &url.URL{Path: r.URL.Path, RawQuery: query}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains(known, w.Code) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

// FuzzHiddenArgument puts arbitrary text before and after an argument that a black list
// matches: the rule must still match.
func FuzzHiddenArgument(f *testing.F) {
	f.Add("a=1", "b=2")
	f.Add("x", "%")
	f.Add("%zz=1&y=%", "=7")
	h := koala.New(options(f))
	f.Fuzz(func(t *testing.T, before, behind string) {
		if hasArgument(before, "uid") || hasArgument(before, "_hits") || hasArgument(behind, "_hits") {
			return // these arguments change the result
		}
		r := httptest.NewRequest("GET", "/rule/browse", nil)
		r.URL.RawQuery = before + "&uid=666&" + behind
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Body.String() != by103 {
			t.Errorf("%q hides it: %d %s", r.URL.RawQuery, w.Code, w.Body)
		}
	})
}

// hasArgument reports whether a query may have an argument with this name.
func hasArgument(query, name string) bool {
	for argument := range strings.SplitSeq(query, "&") {
		written, _, _ := strings.Cut(argument, "=")
		if plain, err := url.QueryUnescape(written); written == name || err == nil && plain == name {
			return true
		}
	}
	return false
}
