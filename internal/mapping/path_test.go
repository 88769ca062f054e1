package mapping

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNormalizePath(t *testing.T) {
	for _, c := range []struct {
		name, path string
		want       string
		segments   []string
	}{
		{"root", "/", "/", []string{""}},
		{"nothing is the root", "", "/", []string{""}},
		{"plain", "/a/b", "/a/b", []string{"a", "b"}},
		{"a trailing slash counts", "/a/", "/a/", []string{"a", ""}},
		{"the first slash is lacking", "a/b", "/a/b", []string{"a", "b"}},
		{"empty segments", "//a///b", "/a/b", []string{"a", "b"}},
		{"nothing but slashes", "///", "/", []string{""}},
		{"many trailing slashes are one", "/a//", "/a/", []string{"a", ""}},
		{"dot", "/./a/./b", "/a/b", []string{"a", "b"}},
		{"dot at the end leaves its slash", "/a/.", "/a/", []string{"a", ""}},
		{"dot dot", "/a/../b", "/b", []string{"b"}},
		{"dot dot at the end leaves its slash", "/a/b/..", "/a/", []string{"a", ""}},
		{"dot dot to the root", "/a/..", "/", []string{""}},
		{"above the root", "/../../a", "/a", []string{"a"}},
		{"above the root at the end", "/..", "/", []string{""}},
		{"dot dot across empty segments", "/a//../b", "/b", []string{"b"}},
		{"three dots are a name", "/.../a", "/.../a", []string{"...", "a"}},
		{"a dot in a name", "/.well-known/x..y", "/.well-known/x..y", []string{".well-known", "x..y"}},
		{"encoded dots in a name", "/a%2e%2E/%2e%2e%2e/.%2ewell", "/a../.../..well", []string{"a..", "...", "..well"}},
		{"encoded letters", "/%61%2Db", "/a-b", []string{"a-b"}},
		{"an encoded slash stays inside", "/a%2fb", "/a%2Fb", []string{"a/b"}},
		{"encoded dots behind an encoded slash are no segment", "/a/..%2f..", "/a/..%2F..", []string{"a", "../.."}},
		{"a percent sign", "/50%25", "/50%25", []string{"50%"}},
		{"decoded once", "/%252e%252e/a", "/%252e%252e/a", []string{"%2e%2e", "a"}},
		{"plus is itself", "/a+b", "/a+b", []string{"a+b"}},
		{"a blank", "/a%20b", "/a b", []string{"a b"}},
		{"not UTF-8", "/%ff\xfe", "/\xff\xfe", []string{"\xff\xfe"}},
		{"a backslash is itself", `/a\..\b`, `/a\..\b`, []string{`a\..\b`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, segments, err := normalizePath(c.path, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("normalizePath(%q) = %q, want %q", c.path, got, c.want)
			}
			if diff := cmp.Diff(c.segments, segments); diff != "" {
				t.Errorf("segments of %q (-want +got):\n%s", c.path, diff)
			}
		})
	}
}

func TestMalformedPath(t *testing.T) {
	for _, c := range []struct{ name, path, kept string }{
		{"an escape that is none", "/a%zz", "/a%25zz"},
		{"an escape cut off", "/a%2", "/a%252"},
		{"a percent sign alone", "/a%", "/a%25"},
		{"an escape broken by a slash", "/a%2/f", "/a%252/f"},
		{"a broken escape beside a whole one", "/%61%", "/a%25"},
		{"a NUL", "/a\x00b", "/a\x00b"},
		{"an encoded NUL", "/a%00b", "/a\x00b"},
		{"an encoded dot", "/a/%2e/b", "/a/b"},
		{"encoded dots", "/a/%2e%2E/b", "/b"},
		{"a dot before an encoded one", "/a/.%2e/b", "/b"},
		{"a dot after an encoded one", "/a/%2E./b", "/b"},
		{"an encoded dot at the end", "/a/%2e", "/a/"},
		{"encoded dots at the end", "/a/%2e%2e", "/"},
		{"encoded dots before a slash at the end", "/a/b/%2e%2e/", "/a/"},
		{"encoded dots at the root", "/%2E%2e", "/"},
		{"encoded dots that literal ones remove", "/a/%2e%2e/../b", "/b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var refusal *Refusal
			_, _, err := normalizePath(c.path, nil, false)
			if !errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest {
				t.Errorf("normalizePath(%q) fails with %v, want a refusal with 400", c.path, err)
			}
			got, _, err := normalizePath(c.path, nil, true)
			if err != nil || got != c.kept {
				t.Errorf("kept: normalizePath(%q) = %q, %v, want %q", c.path, got, err, c.kept)
			}
		})
	}
}

func TestNormalizePathKeepsCleanPaths(t *testing.T) {
	segments := make([]string, 0, 8)
	for _, path := range []string{"/", "/a", "/a/b/", "/api/videos/42"} {
		allocs := testing.AllocsPerRun(100, func() {
			if _, _, err := normalizePath(path, segments, false); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("normalizePath(%q) allocates %v times, want none", path, allocs)
		}
	}
}

func TestCutTarget(t *testing.T) {
	for _, c := range []struct{ target, path, query string }{
		{"/a?b=1", "/a", "b=1"},
		{"/a?b?c", "/a", "b?c"},
		{"?b", "", "b"},
		{"", "", ""},
	} {
		if path, query := cutTarget(c.target); path != c.path || query != c.query {
			t.Errorf("cutTarget(%q) = %q, %q, want %q, %q", c.target, path, query, c.path, c.query)
		}
	}
}

func TestCutAuthority(t *testing.T) {
	for path, want := range map[string]string{
		"http://shop.example/a/b": "/a/b",
		"http://shop.example":     "/",
		"http://u:p@[::1]:80/a":   "/a",
		"http:/a":                 "http:/a",
		"://a/b":                  "://a/b",
		"a/b://c/d":               "a/b://c/d",
		"a":                       "a",
	} {
		if _, got, _ := cutAuthority(path); got != want {
			t.Errorf("cutAuthority(%q) = %q, want %q", path, got, want)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "//", "/%2e%2e/%2F%25", "/a%zz", "/\x00", "a", "/a/./", "/..%2f../"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, path string, keep bool) {
		once, segments, err := normalizePath(path, nil, keep)
		if err != nil {
			if keep {
				t.Fatalf("kept, and yet refused: %q: %v", path, err)
			}
			return
		}
		twice, again, err := normalizePath(once, nil, keep)
		if err != nil || twice != once {
			t.Fatalf("%q is written %q, and that is written %q (%v)", path, once, twice, err)
		}
		if diff := cmp.Diff(segments, again); diff != "" {
			t.Fatalf("%q changes its segments:\n%s", path, diff)
		}
		rest, found := strings.CutPrefix(once, "/")
		if !found {
			t.Fatalf("%q is written %q, without its slash", path, once)
		}
		written := strings.Split(rest, "/")
		for i, s := range written {
			if s == "." || s == ".." || s == "" && i < len(written)-1 {
				t.Fatalf("%q is written %q, which holds the segment %q", path, once, s)
			}
		}
		if len(written) != len(segments) {
			t.Fatalf("%q is written %q, but has %d segments", path, once, len(segments))
		}
	})
}
