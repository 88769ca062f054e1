package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func routes(t testing.TB, lines ...string) *Set {
	t.Helper()
	text := "[routes]\n" + strings.Join(lines, "\n") + "\n[rules]\nrule : [count] [door=+] [time=1; count=1] [result=2; return=1]" + entries
	set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
	if set == nil {
		t.Fatal(findings)
	}
	return set
}

// segments belong to a path without escapes.
func segments(path string) []string { return strings.Split(path, "/")[1:] }

func TestRoutes(t *testing.T) {
	r := routes(t,
		"POST /api/comments          : act=add_comment",
		"GET  /api/videos/{video_id} : act=view_video",
		"GET  /api/videos/new        : act=new_video",
		"*    /api/                  : act=api",
		"GET  /files/{rest...}       : act=download; kind=file",
		"*    /files/                : act=files",
		"GET  /exact/{$}             : act=exact",
		"PUT  /a/b/{x}/d             : act=deep",
		"PUT  /a/{y}/c/{z...}        : act=wide",
		"*    /a/{y}/c/d             : act=any",
		"GET  /caf%C3%A9/%2F         : act=escaped",
	)
	for _, c := range []struct{ why, method, path, want string }{
		{"a literal path", "POST", "/api/comments", "act=add_comment"},
		{"a variable", "GET", "/api/videos/42", "act=view_video video_id=42"},
		{"HEAD is GET", "HEAD", "/api/videos/42", "act=view_video video_id=42"},
		{"a literal before a variable", "GET", "/api/videos/new", "act=new_video"},
		{"the path decides before the method", "POST", "/api/videos/42", "act=api"},
		{"the method decides where the path is not there", "GET", "/api/comments", "act=api"},
		{"a variable needs a character", "GET", "/api/videos/", "act=api"},
		{"a variable is one segment", "GET", "/api/videos/4/2", "act=api"},
		{"a subtree holds its root", "DELETE", "/api/", "act=api"},
		{"a subtree needs its slash", "GET", "/api", "none"},
		{"nothing but a prefix of a segment", "GET", "/apis/", "none"},
		{"the rest of the path", "GET", "/files/a/b.txt", "act=download kind=file rest=a/b.txt"},
		{"the rest keeps a slash at the end", "GET", "/files/a/", "act=download kind=file rest=a/"},
		{"the rest needs a character", "GET", "/files/", "act=files"},
		{"an exact method before any", "POST", "/files/a", "act=files"},
		{"exactly a slash", "GET", "/exact/", "act=exact"},
		{"with nothing after it", "GET", "/exact/more", "none"},
		{"nor without it", "GET", "/exact", "none"},
		{"a slash at the end counts", "POST", "/api/comments/", "act=api"},
		{"back from a literal that leads nowhere", "PUT", "/a/b/c/e", "act=wide y=b z=e"},
		{"the literal way, where it leads on", "PUT", "/a/b/c/d", "act=deep x=c"},
		{"a literal at the end before the rest", "PUT", "/a/x/c/d", "act=any y=x"},
		{"back for the method", "GET", "/a/b/c/d", "act=any y=b"},
		{"the root", "GET", "/", "none"},
		{"case matters", "GET", "/API/videos/1", "none"},
	} {
		var p Params
		got := "none"
		if r.Route(c.method, segments(c.path), &p) {
			got = written(&p)
		} else if p.Len() > 0 {
			t.Errorf("%s: no route applies, and %s was set", c.why, written(&p))
		}
		if got != c.want {
			t.Errorf("%s: %s %s gives %s; want %s", c.why, c.method, c.path, got, c.want)
		}
	}
	var p Params
	if !r.Route("GET", []string{"café", "/"}, &p) || written(&p) != "act=escaped" {
		t.Errorf("escapes in a pattern are decoded; got %s", written(&p))
	}
	p.Reset()
	if !r.Route("GET", []string{"files", "a/b", "50%", "c d"}, &p) || written(&p) != "act=download kind=file rest=a%2Fb/50%25/c d" {
		t.Errorf("the rest writes a slash and a percent sign inside a segment as escapes; got %s", written(&p))
	}
	p.Reset()
	if !r.Route("GET", []string{"api", "videos", "a/b"}, &p) || written(&p) != "act=view_video video_id=a/b" {
		t.Errorf("a variable is the decoded segment; got %s", written(&p))
	}
}

// written lists parameters, ordered by name.
func written(p *Params) string {
	var list []string
	for _, name := range []string{"act", "kind", "rest", "video_id", "x", "y", "z"} {
		if value, ok := p.Get(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return strings.Join(list, " ")
}

func TestRootRoutes(t *testing.T) {
	for _, c := range []struct{ pattern, path, want string }{
		{"/", "/", "act=x"},
		{"/", "/any/thing", "act=x"},
		{"/{$}", "/", "act=x"},
		{"/{$}", "/a", "none"},
		{"/{rest...}", "/", "none"},
		{"/{rest...}", "/a/b", "act=x rest=a/b"},
		{"/{x}", "/", "none"},
		{"/{x}", "/a", "act=x x=a"},
		{"/{x}/", "/a/", "act=x x=a"},
		{"/{x}/", "/a", "none"},
	} {
		var p Params
		got := "none"
		if routes(t, "* "+c.pattern+" : act=x").Route("GET", segments(c.path), &p) {
			got = written(&p)
		}
		if got != c.want {
			t.Errorf("%s for %s gives %s; want %s", c.path, c.pattern, got, c.want)
		}
	}
}

func TestNoRoutesMatchNothing(t *testing.T) {
	r := routes(t)
	if r == nil || r.Route("GET", []string{""}, &Params{}) {
		t.Error("routes are never nil, and without entries none applies")
	}
}

func TestConstantsOverrideParams(t *testing.T) {
	p := MakeParams(map[string]string{"act": "forged", "uid": "7"})
	routes(t, `GET /a : act="a;b # c"`).Route("GET", []string{"a"}, p)
	if diff := cmp.Diff(map[string]string{"act": "a;b # c", "uid": "7"}, map[string]string{"act": value1(p, "act"), "uid": value1(p, "uid")}); diff != "" {
		t.Error(diff)
	}
}

func TestBlankValuesDoNotOverride(t *testing.T) {
	p := MakeParams(map[string]string{"act": "a", "x": "b", "rest": "c"})
	r := routes(t, `GET /v/{x} : kind=one`, `GET /r/{rest...} : kind=two`, `GET /c : act="  "`)
	for _, path := range [][]string{{"v", " "}, {"r", "\t"}, {"c"}} {
		if !r.Route("GET", path, p) {
			t.Errorf("no route applies to %q", path)
		}
	}
	for name, want := range map[string]string{"act": "a", "x": "b", "rest": "c", "kind": "two"} {
		if got := value1(p, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func value1(p *Params, name string) string {
	v, _ := p.Get(name)
	return v
}

func BenchmarkRoutes(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = fmt.Sprintf("GET /api/v%d/things/{x}/parts : act=x", i)
		}
		r, path := routes(b, lines...), segments("/api/v7/things/42/parts")
		b.Run(fmt.Sprintf("%d entries", n), func(b *testing.B) {
			var p Params
			b.ReportAllocs()
			for b.Loop() {
				p.Reset()
				if !r.Route("GET", path, &p) {
					b.Fatal("no route applies")
				}
			}
		})
	}
}
