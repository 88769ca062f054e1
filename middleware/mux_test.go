package middleware_test

import (
	"bufio"
	"flag"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

// Each rule reports the route that the rules saw, by its number.
const routeFile = `
[routes]
GET /api/comments    : act=r1
*   /api/{id}        : act=r2
*   /api/            : act=r3
GET /files/          : act=r4
GET /search/{q}      : act=r5
*   /search/{q}/x    : act=r6
GET /exact/{$}       : act=r7
*   /                : act=r8
[rules]
rule : [direct] [act=r1] [] [result=0; return=1]
rule : [direct] [act=r2] [] [result=0; return=2]
rule : [direct] [act=r3] [] [result=0; return=3]
rule : [direct] [act=r4] [] [result=0; return=4]
rule : [direct] [act=r5] [] [result=0; return=5]
rule : [direct] [act=r6] [] [result=0; return=6]
rule : [direct] [act=r7] [] [result=0; return=7]
rule : [direct] [act=r8] [] [result=0; return=8]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
`

// oddTargets are spellings that programs read differently.
var oddTargets = []string{
	"/api/comments", "/api/comments/", "/api//comments", "//api/comments", "/./api/comments", "/x/../api/comments",
	"/api%2Fcomments", "/api%2fcomments", "/%61pi/comments", "/api/%63omments", "/api/comments%00", "/api/comments%",
	"/api%5Ccomments", `/api\comments`, `/api\..\api/comments`, "/api;a=b/comments", "/api/comments;a=b", "/API/comments",
	"/search/%2e%2e", "/search/%2e", "/search/.%2e", "/search/%2E.", "/search/%2e%2E/x", "/search/../x", "/search/./x", "/search//x",
	"/search/%252e%252e", "/search/..%2f", "/search/..%2Fapi%2Fcomments", "/search/a%2fx", "/search/a%2Fx\"", "/api%2Fcomments\"", "/api%2F1|",
	"/search/%2e%2e%2f\"", "/files/%2e%2e/api/comments", "/files/..%2fapi/comments", "/files/%2E%2E%2fapi%2fcomments^", "/files/../api/comments",
	"/files/a/%2e%2e/b", "/files/", "/files", "/exact/", "/exact", "/exact/%2e", "/exact/.", "/exact//", "/", "//", "/.", "/..", "/%2e", "/%2e%2e/",
	"/api/comments?x=/../y", "/x?/../api/comments", "/x#/../api/comments", "/api/comments#x", "/api/\xff", "/api/\xff%2Fx", "/%ff%2e", "/api/%20", "/api/+",
	"http://shop.example/api/comments", "http://shop.example/search/%2e%2e", "http://shop.example//api/comments", "http://shop.example/api%2Fcomments\"",
	"http://shop.example", "http://shop.example?x", "http:api/comments", "http:/api/comments", "*", "shop.example:80", "shop.example:80/api/comments",
}

// long selects the long form of the tests, as in `make verify`.
var long = flag.Bool("long", false, "run the long form of the tests")

func TestRulesSeeTheRouteOfServeMux(t *testing.T) {
	for name, mode := range map[string]middleware.EncodedSlashes{
		"refuse": middleware.RefuseEncodedSlashes, "keep": middleware.KeepEncodedSlashes,
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			for pattern, number := range map[string]string{
				"GET /api/comments": "1", "/api/{id}": "2", "/api/": "3", "GET /files/{rest...}": "4",
				"GET /search/{q}": "5", "/search/{q}/x": "6", "GET /exact/{$}": "7", "/": "8",
			} {
				mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Handler", number) })
			}
			checkRoutes(t, mode, mux)
		})
	}
}

// Routers such as gin use the decoded path and resolve nothing.
func TestRulesSeeTheRouteOfRoutersByDecodedPath(t *testing.T) {
	checkRoutes(t, middleware.SplitEncodedSlashes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if number := decodedRoute(r); number != "" {
			w.Header().Set("Handler", number)
		}
	}))
}

// decodedRoute returns the number of the route of a request by its decoded path.
func decodedRoute(r *http.Request) string {
	isGet := r.Method == http.MethodGet || r.Method == http.MethodHead
	segments := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	first, rest := segments[0], segments[1:]
	switch {
	case r.URL.Path == "" || r.URL.Path[0] != '/' || r.RequestURI == "*":
		return ""
	case first == "api" && isGet && len(rest) == 1 && rest[0] == "comments":
		return "1"
	case first == "api" && len(rest) == 1 && rest[0] != "":
		return "2"
	case first == "api" && len(rest) > 0:
		return "3"
	case first == "files" && isGet && len(rest) > 0:
		return "4"
	case first == "search" && isGet && len(rest) == 1 && rest[0] != "":
		return "5"
	case first == "search" && len(rest) == 2 && rest[0] != "" && rest[1] == "x":
		return "6"
	case first == "exact" && isGet && len(rest) == 1 && rest[0] == "":
		return "7"
	}
	return "8"
}

// checkRoutes compares the routes of the rules with the handler's: whatever
// reaches a route's handler must have been decided as that route.
func checkRoutes(t *testing.T, mode middleware.EncodedSlashes, handler http.Handler) {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(routeFile)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	limited := middleware.New(middleware.Options{Engine: engine.New(set), EncodedSlashes: mode})(handler)
	count := 20_000
	if *long {
		count = 1_000_000
	}
	targets := append(oddTargets, randomTargets(count)...)
	handled := 0
	for i, target := range targets {
		methods := []string{"GET", "POST", "HEAD", "OPTIONS", "CONNECT"}
		if i >= len(oddTargets) {
			methods = []string{methods[i%len(methods)]}
		}
		for _, method := range methods {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: shop.example\r\n\r\n")))
			if err != nil {
				continue // net/http answers it
			}
			r.RemoteAddr = "198.51.100.7:4711"
			w := httptest.NewRecorder()
			limited.ServeHTTP(w, r)
			if got := w.Header().Get("Handler"); got != "" {
				handled++
				if saw := w.Header().Get("X-Koala-Rule"); saw != got {
					t.Errorf("%s %s: the handler of route %s, and the rules saw route %q", method, target, got, saw)
				}
			}
		}
	}
	if handled < len(targets)/10 {
		t.Errorf("only %d of %d requests reached a handler", handled, len(targets))
	}
}

// randomTargets returns n targets of odd parts, the same at each run.
func randomTargets(n int) []string {
	parts := []string{
		"api", "comments", "files", "search", "exact", "x", "a", ".", "..", "", "%2e", "%2E%2e", ".%2e", "%2e.", "%252e", "...",
		"..;", ";a=b", "%2F", "%2f", "%5C", `\`, `"`, "|", "\xff", "%ff", "%00", "%", "%20", "%61pi", "#", "{x}", "%25", "+", "?", "~", "%7e",
	}
	joints := []string{"/", "/", "/", "/", "", "%2F", "//", "%2f"}
	random := rand.New(rand.NewPCG(1, 2))
	targets := make([]string, n)
	for i := range targets {
		var b strings.Builder
		b.WriteString("/")
		for range 1 + random.IntN(4) {
			b.WriteString(parts[random.IntN(len(parts))])
			b.WriteString(joints[random.IntN(len(joints))])
		}
		targets[i] = b.String()
	}
	return targets
}
