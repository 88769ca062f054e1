package keyset_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/rules"
)

// clock is a clock that stands until the test moves it.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(span time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := timer{c.now.Add(span), make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	return t.c
}

func (c *clock) advance(span time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(span)
	var left []timer
	for _, t := range c.timers {
		if t.at.After(c.now) {
			left = append(left, t)
		} else {
			t.c <- c.now
		}
	}
	c.timers = left
}

// issuer is a server with TLS whose answers the test chooses.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []string // the paths
}

func newIssuer(t *testing.T, answer http.HandlerFunc) *issuer {
	t.Helper()
	i := &issuer{answer: answer}
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked = append(i.asked, r.URL.Path)
		answer := i.answer
		i.mu.Unlock()
		answer(w, r)
	}))
	i.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answers(with http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = with
}

func (i *issuer) requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.asked)
}

func (i *issuer) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.Certificate())
	return pool
}

// keyText returns a JWK set with a new key of this ID.
func keyText(t *testing.T, id string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jose.JSONWebKey{Key: key.Public(), KeyID: id}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return `{"keys":[` + string(text) + `]}`
}

func serve(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// keeping is a keeper with its clock and its log.
type keeping struct {
	*keyset.Keeper
	*clock
	log *bytes.Buffer
}

func keep(t *testing.T, roots *x509.CertPool, folder string) *keeping {
	t.Helper()
	k := &keeping{clock: newClock(), log: new(bytes.Buffer)}
	k.Keeper = keyset.New(keyset.Options{
		StateDir: folder, Roots: roots, Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: k.log}, nil)), Now: k.Now, After: k.After,
	})
	t.Cleanup(k.Close)
	return k
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func line(from rules.KeysFrom, address string) *rules.JWT {
	return &rules.JWT{Name: "main", From: from, Keys: address, Issuer: address, Refresh: 10 * time.Minute}
}

// until waits until the test holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for: %s", what)
		}
	}
}

func (k *keeping) state(t *testing.T) keyset.State {
	t.Helper()
	list := k.States()
	if len(list) != 1 {
		t.Fatalf("%d sets; want 1", len(list))
	}
	return list[0]
}

// fetched moves the clock and waits for the fetch that is due.
func (k *keeping) fetched(t *testing.T, span time.Duration) keyset.State {
	t.Helper()
	before := k.state(t).Fetches
	until(t, "the set to wait", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.timers) > 0 })
	k.advance(span)
	until(t, "a fetch", func() bool { return k.state(t).Fetches > before })
	return k.state(t)
}

func TestKeysAreFetchedAgain(t *testing.T) {
	t.Parallel()
	first, second := keyText(t, "a"), keyText(t, "b")
	text, tags := first, 0
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text)))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			tags++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text)
	})
	k := keep(t, i.roots(), "")
	source := k.Source(line(rules.FromAddress, i.URL+"/keys"))
	k.Await()
	keys := source.Keys()
	if keys == nil || keys.Len() != 1 {
		t.Fatalf("no keys: %+v", k.state(t))
	}
	if s := k.fetched(t, 10*time.Minute); s.LastError != "" || source.Keys() != keys || tags != 1 || !s.At.Equal(k.Now()) {
		t.Errorf("keys that have not changed: %+v, %d answers without keys", s, tags)
	}
	text = second
	if k.fetched(t, 10*time.Minute); source.Keys() == keys {
		t.Error("changed keys are not in use")
	}
	keys = source.Keys()
	i.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if s := k.fetched(t, 10*time.Minute); s.Failures != 1 || !strings.Contains(s.LastError, "answers 503") || source.Keys() != keys {
		t.Errorf("an issuer that is down: %+v; want one failure and the former keys", s)
	}
	k.fetched(t, 30*time.Second)
	i.answers(serve(second))
	if s := k.fetched(t, 30*time.Second); s.Failures != 2 || s.LastError != "" || source.Keys() != keys {
		t.Errorf("an issuer that is back with the same keys: %+v", s)
	}
	if n := strings.Count(k.log.String(), "cannot be fetched"); n != 1 {
		t.Errorf("the same error is logged %d times:\n%s", n, k.log)
	}
	if again := k.Source(line(rules.FromAddress, i.URL+"/keys")); again != source {
		t.Error("two lines with one address have two sets")
	}
	runtime.KeepAlive(source)
}

// An unknown key is fetched at once, and however many tokens ask for it, not before 10 s have
// passed since the last fetch.
func TestUnknownKeysAreFetchedAtOnce(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, serve(keyText(t, "a")))
	k := keep(t, i.roots(), "")
	source := k.Source(line(rules.FromAddress, i.URL))
	k.Await()
	until(t, "the first fetch", func() bool { return k.state(t).Fetches == 1 })
	k.advance(11 * time.Second)
	i.answers(serve(keyText(t, "b")))
	source.Want("b")
	until(t, "the second fetch", func() bool { return k.state(t).Fetches == 2 })
	for range 1000 {
		source.Want("c")
	}
	k.advance(9 * time.Second)
	time.Sleep(20 * time.Millisecond)
	if n := i.requests(); n != 2 {
		t.Errorf("%d fetches within 10 s; want 2 in all", n)
	}
	until(t, "the third fetch", func() bool { k.advance(time.Second); return i.requests() == 3 })
	runtime.KeepAlive(source)
}

func TestIssuersNameTheirKeys(t *testing.T) {
	keys := keyText(t, "a")
	var i *issuer
	discovery := func(issuer, address string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
				_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"other":[1]}`, issuer, address)
				return
			}
			_, _ = io.WriteString(w, keys)
		}
	}
	i = newIssuer(t, nil)
	for _, c := range []struct {
		name, issuer, address, want string
	}{
		{"its own", i.URL + "/realms/corp", i.URL + "/certs", ""},
		{"another issuer", i.URL + "/realms/other", i.URL + "/certs", "another issuer"},
		{"the issuer with a slash", i.URL + "/realms/corp/", i.URL + "/certs", "another issuer"},
		{"no issuer", "", i.URL + "/certs", "another issuer"},
		{"keys over http", i.URL + "/realms/corp", "http://example.com/certs", "want https://"},
		{"keys in a file", i.URL + "/realms/corp", "file:///etc/passwd", "want https://"},
		{"keys at no address", i.URL + "/realms/corp", "", "want https://"},
		{"keys at a path", i.URL + "/realms/corp", "/certs", "want https://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i.answers(discovery(c.issuer, c.address))
			k := keep(t, i.roots(), "")
			source := k.Source(line(rules.FromIssuer, i.URL+"/realms/corp"))
			k.Await()
			s := k.state(t)
			if (source.Keys() != nil) != (c.want == "") || !strings.Contains(s.LastError, c.want) {
				t.Errorf("keys: %v, error %q; want %q", source.Keys() != nil, s.LastError, c.want)
			}
		})
	}
}

// Whatever an issuer answers, the last good keys stay, and each request of a fetch has to end
// within the same 5 s.
func TestHostileIssuers(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(serve(keyText(t, "evil")))
	t.Cleanup(plain.Close)
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	endless := func(w io.Writer, block string) {
		for {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}
	redirects := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an error":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "answers 500"},
		"not found":             {http.NotFound, "answers 404"},
		"not modified, unasked": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "answers 304"},
		"no content":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "answers 204"},
		"nothing":               {serve(""), "invalid"},
		"HTML":                  {serve("<html><body>log in</body></html>"), "HTML"},
		"no keys":               {serve(`{"keys":[]}`), "no key"},
		"a secret":              {serve(`{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}`), "secret"},
		"half of the keys": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			_, _ = io.WriteString(w, `{"keys":[`)
		}, "EOF"},
		"100,000 keys":             {serve(`{"keys":[` + strings.Repeat(`{"kty":"x"},`, 100_000) + `{}]}`), "more than"},
		"10,000 short keys":        {serve(`{"keys":[` + strings.Repeat(`{},`, 10_000) + `{}]}`), "more than 1000 keys"},
		"1 GB":                     {func(w http.ResponseWriter, _ *http.Request) { endless(w, strings.Repeat(" ", 1<<16)) }, "more than"},
		"16 MB from a few kB":      {zipped(t), "more than"},
		"a line of binary per key": {func(w http.ResponseWriter, _ *http.Request) { endless(w, "\x00\xff\xfe\x80\n") }, "more than"},
		"slow for ever": {func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(100 * time.Millisecond):
				case <-r.Context().Done():
					return
				case <-hung:
					return
				}
			}
		}, "deadline exceeded"},
		"silent for ever": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-hung:
			}
		}, "deadline exceeded"},
		"a header of 1 MB":            {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", 1<<20)) }, ""},
		"a redirect to a file":        {redirects("file:///etc/passwd"), "without https"},
		"a redirect to http":          {redirects(plain.URL), "without https"},
		"a redirect to itself":        {redirects("/again"), "more than 3 redirects"},
		"a redirect to a closed port": {redirects("https://127.0.0.1:1/"), "refused"},
		"a redirect to no address":    {redirects("https://"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t, serve(keyText(t, "a")))
			k := keep(t, i.roots(), "")
			source := k.Source(line(rules.FromAddress, i.URL))
			k.Await()
			keys := source.Keys()
			i.answers(c.answer)
			until(t, "the set to wait", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.timers) > 1 })
			var mu sync.Mutex
			var ends []time.Time
			k.Watch(func(r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				end, ok := r.Context().Deadline()
				if most := time.Now().Add(5 * time.Second); !ok || end.After(most) || len(ends) > 0 && !end.Equal(ends[0]) {
					t.Errorf("a request has to end by %v; want %v at most, and one time for all: %v", end, most, ends)
				}
				ends = append(ends, end)
			})
			s := k.fetched(t, 10*time.Minute)
			if len(ends) == 0 {
				t.Error("no request was seen")
			}
			if keys == nil || source.Keys() != keys || s.Failures != 1 || !strings.Contains(s.LastError, c.want) {
				t.Errorf("%+v, the keys are the former ones: %v; want one failure: %s", s, source.Keys() == keys, c.want)
			}
		})
	}
}

// zipped returns an answer with few kB that become 16 MB.
func zipped(t *testing.T) http.HandlerFunc {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(make([]byte, 16<<20))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes()) // the reader may leave early
	}
}

// An issuer cannot lead a keeper to hosts that may not be asked, by its discovery document or by
// a redirect, nor an https issuer to http.
func TestIssuersStayAtTheirHosts(t *testing.T) {
	t.Parallel()
	other := newIssuer(t, serve(keyText(t, "other")))
	plain := httptest.NewServer(serve(keyText(t, "plain")))
	t.Cleanup(plain.Close)
	var i *issuer
	i = newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		name, isDiscovery := strings.CutSuffix(r.URL.Path, "/.well-known/openid-configuration")
		uri := map[string]string{"/own": i.URL + "/keys", "/other": other.URL, "/plain": plain.URL, "/away": i.URL + "/redirect"}[name]
		switch {
		case isDiscovery:
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL+name, uri)
		case r.URL.Path == "/redirect":
			http.Redirect(w, r, other.URL, http.StatusFound)
		default:
			serve(keyText(t, "own"))(w, r)
		}
	})
	pool := i.roots()
	pool.AddCert(other.Certificate())
	k := keyset.New(keyset.Options{Roots: pool, Logger: slog.New(slog.DiscardHandler), MayAsk: func(u *url.URL) error {
		if "https://"+u.Host != i.URL && "http://"+u.Host != plain.URL {
			return errors.New("another host")
		}
		return nil
	}})
	t.Cleanup(k.Close)
	for path, want := range map[string]string{"/own": "", "/other": "another host", "/away": "another host", "/plain": "want https://"} {
		source := k.Source(line(rules.FromIssuer, i.URL+path))
		k.Await()
		states := k.States()
		if len(states) != 1 || (source.Keys() != nil) != (want == "") || !strings.Contains(states[0].LastError, want) {
			t.Errorf("%s: %+v; want the error %q", path, states, want)
		}
		runtime.KeepAlive(source)
		until(t, "the set to end", func() bool { runtime.GC(); return len(k.States()) == 0 })
	}
	if n := other.requests(); n > 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

// Three redirects to https are followed, to other hosts as well.
func TestRedirects(t *testing.T) {
	t.Parallel()
	keys := keyText(t, "a")
	i := newIssuer(t, nil)
	i.answers(func(w http.ResponseWriter, r *http.Request) {
		if step := len(r.URL.Path); step < 4 {
			http.Redirect(w, r, i.URL+r.URL.Path+"x", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, keys)
	})
	k := keep(t, i.roots(), "")
	source := k.Source(line(rules.FromAddress, i.URL+"/"))
	if k.Await(); source.Keys() == nil {
		t.Errorf("no keys after three redirects: %+v", k.state(t))
	}
}

func TestServersWithoutAKnownCertificate(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, serve(keyText(t, "a")))
	k := keep(t, nil, "")
	source := k.Source(line(rules.FromAddress, i.URL))
	k.Await()
	if s := k.state(t); source.Keys() != nil || !strings.Contains(s.LastError, "certificate") {
		t.Errorf("%+v; want no keys from a server that nobody vouches for", s)
	}
}

// The state folder has the keys when the issuer is away at the next start, and nothing else.
func TestKeysStayOverARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	i := newIssuer(t, serve(keyText(t, "a")))
	at := line(rules.FromAddress, i.URL)
	k := keep(t, i.roots(), folder)
	source := k.Source(at)
	k.Await()
	runtime.KeepAlive(source)
	k.Close()
	i.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })

	k = keep(t, i.roots(), folder)
	source = k.Source(at)
	if source.Keys() == nil {
		t.Fatal("the keys of the last run are not in use at once")
	}
	until(t, "a fetch", func() bool { return k.state(t).Failures == 1 })
	if source.Keys() == nil {
		t.Error("an issuer that is away at the start takes the keys of the last run away")
	}
	if other := k.Source(line(rules.FromAddress, i.URL+"/other")); other.Keys() != nil {
		t.Error("another address has the keys")
	}
	if other := k.Source(line(rules.FromIssuer, i.URL)); other.Keys() != nil {
		t.Error("an issuer has the keys of an address")
	}
	k.Close()
	runtime.KeepAlive(source) // its file would end with it

	files, err := filepath.Glob(filepath.Join(folder, "keys", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v; want one", files, err)
	}
	for _, text := range []string{"", "{", "\x00", `{"address":"` + i.URL + `","keys":"x"}`, `{"address":"https://example.com/","keys":"{}"}`} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k := keep(t, i.roots(), folder)
		if k.Source(at).Keys() != nil {
			t.Errorf("keys from a file with %q", text)
		}
	}
}

// A set and its file end with the last rule set that has it.
func TestSetsEndWithTheirRules(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, serve(keyText(t, "a")))
	folder := t.TempDir()
	k := keep(t, i.roots(), folder)
	files := func() int { return len(namesIn(t, folder)) }
	func() { // in which the source is in use
		source := k.Source(line(rules.FromAddress, i.URL))
		k.Await()
		runtime.GC()
		until(t, "the file of the set", func() bool { return files() == 1 })
		if k.Known(line(rules.FromAddress, i.URL)) != source {
			t.Fatal("the set ended while it was in use")
		}
		runtime.KeepAlive(source)
	}()
	until(t, "the set to end", func() bool { runtime.GC(); return len(k.States()) == 0 })
	if known := k.Known(line(rules.FromAddress, i.URL)); known.Keys() != nil {
		t.Error("a set that has ended has keys")
	}
	until(t, "the file to end", func() bool { return files() == 0 })
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(folder, "keys"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

// Files that no set has had for a week are removed once the rules are loaded.
func TestOldFilesAreRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	i := newIssuer(t, serve(keyText(t, "a")))
	at := line(rules.FromAddress, i.URL)
	first := keep(t, i.roots(), folder)
	source := first.Source(at)
	first.Await()
	first.Close()
	runtime.KeepAlive(source)
	own := namesIn(t, folder)
	for name, age := range map[string]time.Duration{own[0]: 30 * 24 * time.Hour, "old.json": 8 * 24 * time.Hour, "young.json": 6 * 24 * time.Hour} {
		path := filepath.Join(folder, "keys", name)
		if name != own[0] {
			if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		when := newClock().Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	k := keep(t, i.roots(), folder)
	source = k.Source(at)
	k.Await()
	got := namesIn(t, folder)
	if len(got) != 2 || !slices.Contains(got, own[0]) || !slices.Contains(got, "young.json") {
		t.Errorf("the folder has %q; want the file in use and the young one", got)
	}
	k.Close()
	runtime.KeepAlive(source)
}

// A rule set waits for keys for 5 s at most, and not at all once each set was fetched.
func TestRulesWaitForKeysOnce(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	silent := newIssuer(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hung:
		}
	})
	i := newIssuer(t, serve(keyText(t, "a")))
	pool := i.roots()
	pool.AddCert(silent.Certificate())
	k := keep(t, pool, "")
	var sources []tokens.Source
	for n := range 3 {
		sources = append(sources, k.Source(line(rules.FromAddress, fmt.Sprintf("%s/%d", silent.URL, n))))
	}
	sources = append(sources, k.Source(line(rules.FromAddress, i.URL)))
	fetched := func() bool {
		return !slices.ContainsFunc(k.States(), func(s keyset.State) bool { return s.Fetches == 0 })
	}
	began := make(chan struct{})
	done := make(chan bool, 1)
	go func() { close(began); k.Await(); done <- fetched() }()
	<-began
	until(t, "keys of the issuer that answers", func() bool { return sources[3].Keys() != nil })
	until(t, "the rules to wait", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.timers) >= 2 })
	k.advance(5*time.Second - time.Millisecond)
	select {
	case all := <-done:
		if !all {
			t.Error("the rules wait for less than 5 s")
		}
		done <- all
	case <-time.After(20 * time.Millisecond):
	}
	k.advance(time.Millisecond)
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the rules wait for more than 5 s")
	}
	until(t, "the first fetches", fetched)
	k.Await() // which would wait for ever, since the clock stands
	runtime.KeepAlive(sources)
}
