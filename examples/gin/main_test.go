package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

// Each spelling that reaches the handler must count as a comment.
func TestEverySpellingOfTheRouteIsLimited(t *testing.T) {
	for _, target := range []string{"/api/comments", "/api%2Fcomments", "/api%2fcomments", "/%61pi%2Fcomments", "/api%5Ccomments", "//api/comments", "/x/../api/comments", "/api/%2e/comments", "/x%2F..%2Fapi/comments"} {
		gate, err := openGate()
		if err != nil {
			t.Fatal(err)
		}
		router := newRouter(gate)
		served := 0
		for range 6 {
			r := httptest.NewRequest(http.MethodPost, target, http.NoBody)
			w := httptest.NewRecorder()
			router.ServeHTTP(w, r)
			if w.Code == http.StatusOK {
				served++
			}
		}
		if served > 4 {
			t.Errorf("POST %s is served %d times; want 4 at most", target, served)
		}
		gate.Close()
	}
}

// ending has the numbers of its rules in the order of ended.
const ending = `[params]
user : header X-User
[rules]
rule : [hold] [user=+] [time=60; count=1] [result=2; return=1]
rule : [count] [response.status=404; user=+] [time=3600; count=9] [result=2; return=2]
rule : [count] [response.status=500; user=+] [time=3600; count=9] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// ended returns what the rules have counted: running requests, and requests that ended
// with 404 and with 500.
func ended(t *testing.T, e *engine.Engine) [3]int64 {
	t.Helper()
	var hits [3]int64
	for i := range hits {
		d, err := e.Decide(t.Context(), &engine.Call{
			Op: engine.Peek, Rule: int64(i + 1), Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"user": "ann"})}},
		})
		if err != nil {
			t.Fatal(err)
		}
		hits[i] = d.Answers[0].Hits
	}
	return hits
}

// Requests are held while gin's handlers run, and end with the status that gin sends.
func TestRulesLearnHowHandlersEnd(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ending)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	e := engine.New(set)
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.CustomRecovery(func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
	router.Use(limited(middleware.New(middleware.Options{Engine: e, EncodedSlashes: middleware.SplitEncodedSlashes})))
	running := func(c *gin.Context) {
		if got := ended(t, e); got[0] != 1 {
			t.Errorf("%s: %d held while the handler runs; want 1", c.Request.URL.Path, got[0])
		}
	}
	router.GET("/ok", running, func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	router.GET("/empty", running)
	router.GET("/absent", running, func(c *gin.Context) { c.Status(http.StatusOK); c.JSON(http.StatusNotFound, nil) })
	router.GET("/panic", running, func(*gin.Context) { panic("a fault") })
	for _, c := range []struct {
		path   string
		status int
		want   [3]int64
	}{
		{"/ok", 200, [3]int64{0, 0, 0}},
		{"/empty", 200, [3]int64{0, 0, 0}},
		{"/absent", 404, [3]int64{0, 1, 0}},
		{"/no-route", 404, [3]int64{0, 2, 0}},
		{"/panic", 500, [3]int64{0, 2, 1}},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, http.NoBody)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		if got := ended(t, e); w.Code != c.status || got != c.want {
			t.Errorf("%s: %d, and the rules count %v; want %d and %v", c.path, w.Code, got, c.status, c.want)
		}
	}
}

// A request whose handler takes over the connection is held until the connection is closed.
func TestHijackedConnectionsAreHeld(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ending)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	e := engine.New(set)
	router, taken, done := gin.New(), make(chan net.Conn, 1), make(chan struct{})
	router.Use(func(c *gin.Context) {
		defer close(done)
		c.Next()
		conn := <-taken
		if got := ended(t, e); got[0] != 1 {
			t.Errorf("%d held after the handler; want 1", got[0])
		}
		_ = conn.Close()
		if got := ended(t, e); got[0] != 0 {
			t.Errorf("%d held after the connection is closed; want 0", got[0])
		}
	}, limited(middleware.New(middleware.Options{Engine: e})))
	router.GET("/", func(c *gin.Context) {
		conn, _, err := c.Writer.Hijack()
		if err != nil {
			t.Error(err)
			conn, _ = net.Pipe()
		}
		taken <- conn
	})
	s := httptest.NewServer(router)
	defer s.Close()
	client, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\nX-User: ann\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-done
	if got := ended(t, e); got != [3]int64{} {
		t.Errorf("the rules count %v; want nothing", got)
	}
}
