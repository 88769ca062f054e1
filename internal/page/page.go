// Package page serves the page for operators at the admin address: files that are built
// from web and embedded here. The page has no data of its own: its scripts ask /api/v1/,
// which checks tokens, so that the files need none.
//
// Names of files contain the hash of their contents, so that browsers keep them. The
// content security policy allows scripts and styles of these files alone: nothing inline,
// no other host, and no text that becomes HTML (trusted types).
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// Prefix is the prefix of the paths of the page.
const Prefix = "/ui/"

//go:embed built
var built embed.FS

// policy is the content security policy of the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is a file of the page.
type file struct {
	kind string // of its content
	etag string
	text []byte
	zip  func() []byte // text with gzip
	keep bool          // its name has the hash of its contents
}

// server serves the files by their names. It reads them when the page is first opened.
type server struct{ files func() map[string]*file }

// New returns the handler of the paths below Prefix.
func New() http.Handler { return &server{files: sync.OnceValue(readFiles)} }

// readFiles returns the files by their names.
func readFiles() map[string]*file {
	files := make(map[string]*file)
	names, err := fs.Glob(built, "built/*")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	for _, name := range names {
		text, err := built.ReadFile(name)
		if err != nil {
			panic(err) // an embedded file can be read
		}
		if name = path.Base(name); name != sourcesFile {
			files[name] = newFile(name, text)
		}
	}
	return files
}

// sourcesFile has the hash of the sources of the bundle.
const sourcesFile = "SOURCES"

// index is the name of the page itself.
const index = "index.html"

func newFile(name string, text []byte) *file {
	sum := sha256.Sum256(text)
	f := &file{
		kind: mime.TypeByExtension(path.Ext(name)), etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		text: text, keep: strings.ContainsRune(name, '-'),
	}
	switch path.Ext(name) { // whatever the system's list of types says
	case ".js":
		f.kind = "text/javascript; charset=utf-8"
	case ".css":
		f.kind = "text/css; charset=utf-8"
	case ".svg":
		f.kind = "image/svg+xml"
	case ".txt":
		f.kind = "text/plain; charset=utf-8"
	}
	f.zip = sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
		_, _ = w.Write(text)                                  // a buffer takes everything
		_ = w.Close()
		return b.Bytes()
	})
	return f
}

// ServeHTTP serves a file.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	if name == "" {
		name = index
	}
	f := s.files()[name]
	if f == nil {
		h.Set("Cache-Control", "no-store")
		http.Error(w, "the page has no file of this name; open "+Prefix, http.StatusNotFound)
		return
	}
	h.Set("Cache-Control", "no-cache")
	if f.keep {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("ETag", f.etag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	text := f.text
	if acceptsGzip(r) {
		text = f.zip()
		h.Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(text) // fails only if the caller has disconnected
}

// acceptsGzip reports whether a caller accepts gzip, as all browsers do.
func acceptsGzip(r *http.Request) bool {
	for _, one := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		coding, quality, _ := strings.Cut(strings.TrimSpace(one), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return !strings.HasPrefix(strings.TrimSpace(quality), "q=0") || strings.ContainsAny(quality, "123456789")
		}
	}
	return false
}
