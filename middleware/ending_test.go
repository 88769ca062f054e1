package middleware_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/middleware"
	"github.com/koalagate/koalagate/rules"
)

// endingRules hold what is under way, estimate what is used, and count by the status.
const endingRules = `[settings]
timezone : UTC
[params]
user : header X-User
[rules]
rule : [hold] [user=+] [time=60; count=1] [result=2; return=1]
rule : [count] [user=+] [time=3600; count=1000; settle=60; used=response.tokens] [result=2; return=2]
rule : [count] [response.status=500; user=+] [time=3600; count=9] [result=2; return=3]
rule : [count] [response.status=404; user=+] [time=3600; count=9] [result=2; return=4]
rule : [count] [response.status!=+; user=+] [time=3600; count=9] [result=2; return=5]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// ended serves a handler and returns its engine.
func ended(t *testing.T, h http.HandlerFunc) (*engine.Engine, *httptest.Server) {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(endingRules)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	e := engine.New(set)
	s := httptest.NewUnstartedServer(middleware.New(middleware.Options{Engine: e})(h))
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(s.Close)
	return e, s
}

// counted returns what the rules 1 … 5 have counted for ann.
func counted(t *testing.T, e *engine.Engine) [5]int64 {
	t.Helper()
	var hits [5]int64
	p := new(rules.Params)
	p.Set("user", "ann")
	for i := range hits {
		d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Peek, Rule: int64(i + 1), Inputs: []engine.Input{{Params: p}}})
		if err != nil {
			t.Fatal(err)
		}
		hits[i] = d.Answers[0].Hits
	}
	return hits
}

// settledAs waits until the rules have counted what is wanted: a response may arrive before
// its settlement.
func settledAs(t *testing.T, e *engine.Engine, want [5]int64) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		got := counted(t, e)
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the rules count %v, want %v", got, want)
		}
	}
}

func get(t *testing.T, s *httptest.Server) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-User", "ann")
	res, err := s.Client().Do(r)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

func TestHandlersSettle(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    [5]int64
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, [5]int64{0, 1, 0, 0, 0}},
		{"a status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, [5]int64{0, 1, 0, 1, 0}},
		{"an early hint", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
		}, [5]int64{0, 1, 0, 1, 0}},
		{"a body before a status", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "body")
			w.(http.Flusher).Flush()
		}, [5]int64{0, 1, 0, 0, 0}},
		{"a body from a reader", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, strings.NewReader("body"))
		}, [5]int64{0, 1, 0, 0, 0}},
		{"too many hits", func(w http.ResponseWriter, r *http.Request) {
			used := -5
			middleware.SetHits(r.Context(), uint64(used))
			w.WriteHeader(http.StatusNotFound)
		}, [5]int64{0, 1, 0, 1, 0}},
		{"too many hits, then hits", func(_ http.ResponseWriter, r *http.Request) {
			middleware.SetHits(r.Context(), engine.MaxHits+1)
			middleware.SetHits(r.Context(), 70)
		}, [5]int64{0, 70, 0, 0, 0}},
		{"hits", func(_ http.ResponseWriter, r *http.Request) { middleware.SetHits(r.Context(), 70) }, [5]int64{0, 70, 0, 0, 0}},
		{"parameters of the response", func(_ http.ResponseWriter, r *http.Request) {
			middleware.SetHits(r.Context(), 70)
			middleware.SetResponse(r.Context(), "tokens", "300")
		}, [5]int64{0, 300, 0, 0, 0}},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, [5]int64{0, 1, 1, 0, 0}},
		{"a panic after the status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			panic(http.ErrAbortHandler)
		}, [5]int64{0, 1, 0, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, s := ended(t, c.handler)
			get(t, s)
			settledAs(t, e, c.want)
		})
	}
}

// TestHoldsLastWhileTheHandlerRuns checks that a second request is refused while the first
// runs, and admitted after it.
func TestHoldsLastWhileTheHandlerRuns(t *testing.T) {
	begun, end := make(chan string, 2), make(chan struct{})
	e, s := ended(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- middleware.Receipt(r.Context())
		<-end
	})
	first := make(chan int)
	go func() {
		status, _ := get(t, s)
		first <- status
	}()
	if receipt := <-begun; !engine.ValidReceipt(receipt) {
		t.Errorf("the receipt of the handler is %q", receipt)
	}
	if status, _ := get(t, s); status != http.StatusTooManyRequests {
		t.Errorf("a second request while the first runs: %d, want 429", status)
	}
	close(end)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first request: %d, want 200", status)
	}
	settledAs(t, e, [5]int64{0, 1, 0, 0, 0})
	if status, _ := get(t, s); status != http.StatusOK {
		t.Errorf("a request after the first: %d, want 200", status)
	}
}

// TestHijackedConnectionsSettleWhenClosed checks that a connection that the handler took
// over is held until it is closed.
func TestHijackedConnectionsSettleWhenClosed(t *testing.T) {
	taken := make(chan net.Conn, 1)
	returned := make(chan struct{})
	e, s := ended(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(returned)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		taken <- conn
	})
	client, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nX-User: ann\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	conn := <-taken
	<-returned
	if got := counted(t, e); got[0] != 1 {
		t.Errorf("%d is held after the handler returned, want 1", got[0])
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	settledAs(t, e, [5]int64{0, 1, 0, 0, 1}) // without a status
	if _, err := bufio.NewReader(client).ReadByte(); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
}

// TestHandlersWithoutReceipt checks that requests without a receipt reach the handler with
// the server's own writer.
func TestHandlersWithoutReceipt(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte("[rules]\nrule : [count] [path=+] [time=60; count=9] [result=1; return=1]\n[result]\n0 : {}\n1 : {}\n")}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	var seen http.ResponseWriter
	h := middleware.New(middleware.Options{Engine: engine.New(set)})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = w
		middleware.SetHits(r.Context(), 5)
		middleware.SetResponse(r.Context(), "a", "b")
		if receipt := middleware.Receipt(r.Context()); receipt != "" {
			t.Errorf("the receipt is %q, want none", receipt)
		}
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if seen != http.ResponseWriter(w) {
		t.Errorf("the handler wrote to %T, want the server's writer", seen)
	}
}
