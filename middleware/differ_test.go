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
)

// Where a program reads a request otherwise than the rules do, its client chooses
// what they see. net/http takes a fragment for a part of the path or the query.
func TestTheRulesReadWhatTheProgramReads(t *testing.T) {
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

// sendTarget asks for a target as it is written, and returns the status.
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
