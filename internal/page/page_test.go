package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The committed bundle is built from the committed sources.
func TestBundleIsOfItsSources(t *testing.T) {
	sources := []string{"build.mjs", "package-lock.json", "package.json", "tsconfig.json"}
	entries, err := os.ReadDir("web/src")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		sources = append(sources, "src/"+e.Name())
	}
	slices.Sort(sources)
	sum := sha256.New()
	for _, name := range sources {
		text, err := os.ReadFile(filepath.Join("web", name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	want := hex.EncodeToString(sum.Sum(nil))
	if got, err := built.ReadFile("built/" + sourcesFile); err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("the page is built from other sources (%v); run make page", err)
	}
}

func ask(h http.Handler, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// named are the files that the page loads at once.
var named = regexp.MustCompile(`(?:src|href)="([^"]+)"`)

// The page loads its own files alone, with types, a policy and names that browsers may
// keep, and little of them.
func TestFirstView(t *testing.T) {
	h := New()
	page := ask(h, Prefix)
	text, _ := io.ReadAll(page.Body)
	if page.StatusCode != http.StatusOK || page.Header.Get("Content-Type") != "text/html; charset=utf-8" || page.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("%d %v", page.StatusCode, page.Header)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := page.Header.Get(name); !strings.HasPrefix(got, want) || strings.Contains(got, "unsafe") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if bytes.Contains(text, []byte("<style")) || regexp.MustCompile(`<script[^>]*>[^<]`).Match(text) || regexp.MustCompile(`\s(on[a-z]+|style)=`).Match(text) {
		t.Errorf("something is inline:\n%s", text)
	}
	size := len(text)
	files := named.FindAllSubmatch(text, -1)
	if len(files) != 3 {
		t.Fatalf("%d files in\n%s", len(files), text)
	}
	for _, f := range files {
		one := ask(h, Prefix+string(f[1]), "Accept-Encoding", "gzip, deflate, br")
		zipped, _ := io.ReadAll(one.Body)
		size += len(zipped)
		if one.StatusCode != http.StatusOK || !strings.Contains(one.Header.Get("Cache-Control"), "immutable") || one.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", f[1], one.StatusCode, one.Header)
		}
		r, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		plain, _ := io.ReadAll(ask(h, Prefix+string(f[1])).Body)
		if err != nil || !bytes.Equal(content, plain) {
			t.Errorf("%s: the compressed file is another one (%v)", f[1], err)
		}
	}
	if t.Logf("the first view takes %d bytes", size); size > 300_000 {
		t.Errorf("the first view takes %d bytes; want 300,000 at most", size)
	}
}

// A file that the browser has is not sent again, and unknown ones are named as such.
func TestFiles(t *testing.T) {
	h := New()
	if r := ask(h, Prefix, "If-None-Match", ask(h, Prefix).Header.Get("ETag")); r.StatusCode != http.StatusNotModified {
		t.Errorf("the same page: %d", r.StatusCode)
	}
	for _, path := range []string{Prefix + "nothing", Prefix + sourcesFile, Prefix + "../page.go", Prefix + "built/index.html"} {
		if r := ask(h, path); r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
	}
	for coding, want := range map[string]string{"": "", "identity": "", "br, gzip;q=0.8": "gzip", "gzip;q=0": "", "gzip; q=0.0": "", "GZIP": "gzip"} {
		if got := ask(h, Prefix, "Accept-Encoding", coding).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: %q; want %q", coding, got, want)
		}
	}
	if r := ask(h, Prefix+"LICENSES.txt"); r.StatusCode != http.StatusOK {
		t.Errorf("the licenses: %d", r.StatusCode)
	}
}
