package middleware_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

// If a program and the rules read a request differently, the client can choose what the
// rules see. net/http takes a fragment for a part of the path or the query.
func TestRulesReadThePathOfTheProgram(t *testing.T) {
	o := options(t, nil, engine.ModeEnforce)
	files := http.FileServerFS(fstest.MapFS{"black": {Data: []byte("black")}})
	s := httptest.NewServer(middleware.New(o)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("session") != "" {
			return
		}
		files.ServeHTTP(w, r)
	})))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		target string
		want   int
	}{
		{"/black", http.StatusForbidden},
		{"/x/../black", http.StatusForbidden},
		{"/x#/../black", http.StatusBadRequest},
		{"http://shop.example/x#/../black", http.StatusForbidden},
		{"/x?#&session=s", http.StatusBadRequest},
	} {
		if got := sendTarget(t, s, c.target); got != c.want {
			t.Errorf("GET %s: %d, want %d", c.target, got, c.want)
		}
	}
}

// A client that could show the rules another cookie than the program would have a new
// limit with each request.
func TestRulesReadTheCookieOfTheProgram(t *testing.T) {
	o := options(t, nil, engine.ModeEnforce)
	var session string
	s := httptest.NewServer(middleware.New(o)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie("session"); err == nil {
			session = cookie.Value
		}
	})))
	t.Cleanup(s.Close)
	for i, before := range []string{
		"", "session; ", `session= "1"; `, `session=2\; `, "session=\xff; ", "\u00a0session=3; ", `session="4; `, `session="5\"; `, "Session=6; ", "\u2003session =7; ",
	} {
		session = "none"
		if res, _ := ask(t, s, "GET /", "Cookie", before+"session=s; session=t"); (res.StatusCode == http.StatusOK) != (i == 0) {
			t.Errorf("the cookie %q before the program's: %d, and the program read %q", before, res.StatusCode, session)
		}
	}
}

// The same for arguments of the query: net/url skips arguments that it cannot parse.
func TestRulesReadTheArgumentOfTheProgram(t *testing.T) {
	o := options(t, nil, engine.ModeEnforce)
	var key string
	s := httptest.NewServer(middleware.New(o)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key = r.URL.Query().Get("key")
	})))
	t.Cleanup(s.Close)
	for i, before := range []string{"", "key=%zz&", "key=1;2&", "key=%&", "key=3%f&", "a=b;c&key=;&", "k%65y=4%zz&"} {
		key = "none"
		if got := sendTarget(t, s, "/?"+before+"k%65y=k&key=l"); (got == http.StatusOK) != (i == 0) {
			t.Errorf("%q before the program's argument: %d, and the program read %q", before, got, key)
		}
	}
}

// sendTarget sends a request with exactly this target and returns the status.
func sendTarget(t *testing.T, s *httptest.Server, target string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.example\r\n\r\n", target)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// If the program and the rules read the host differently, the client can choose what
// rules with a condition on host see.
func TestRulesReadTheHostOfTheProgram(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`
[rules]
rule : [direct] [host=shop.example] [] [result=0; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
`)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("shop.example/", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Handler", "1") })
	limited := middleware.New(middleware.Options{Engine: engine.New(set)})(mux)
	for _, c := range []struct {
		target, host string
		want         int
	}{
		{"/", "shop.example", 200},
		{"/", "shop.example:80", 200},
		{"/", "shop.example:80:80", 400},
		{"/", "shop.example..", 400},
		{"/", "user@shop.example", 400},
		{"/", "shop.example:x", 400},
		{"/", "shop.example,other.example", 400},
		{"http://shop.example/", "other.example", 200},
		{"http://other.example/", "shop.example", 200},
		{"http://user@shop.example/", "other.example", 200},
		{"http://shop.example../", "other.example", 400},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + c.target + " HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "198.51.100.7:4711"
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, r)
		if handler, saw := w.Header().Get("Handler"), w.Header().Get("X-Koala-Rule"); w.Code != c.want || handler != saw {
			t.Errorf("GET %s with Host %s: %d, want %d; handler %q, and the rules saw %q", c.target, c.host, w.Code, c.want, handler, saw)
		}
	}
}
