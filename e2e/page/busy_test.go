package page

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hold takes the only place for lengthy requests with a body that does not end, and returns the
// function that frees it.
func (f *fleet) hold() (free func()) {
	f.Helper()
	conn, err := net.Dial("tcp", f.one.Admin)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /api/v1/check HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", f.one.Admin, changeToken); err != nil {
		f.Fatal(err)
	}
	for begin := time.Now(); f.asks() != http.StatusTooManyRequests; {
		if time.Since(begin) > *patience {
			f.Fatal("the request does not get the place")
		}
	}
	return func() { _ = conn.Close() }
}

// asks asks a lengthy question and returns the status.
func (f *fleet) asks() int {
	r, err := http.NewRequest(http.MethodPost, "http://"+f.one.Admin+"/api/v1/why", strings.NewReader(`{"params":{"uid":"ann"}}`))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+readToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// While somebody else has the only place for lengthy questions, the page asks again after
// Retry-After by itself.
func TestBusyInstance(t *testing.T) {
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := open(t, f.one.Admin, "", desk, unauthorized, "status of 429")
	w.giveToken(readToken)
	w.see("Rules that refuse")
	free := f.hold()
	go func() {
		time.Sleep(5 * time.Second) // the first question of the page has its 429
		free()
	}()
	w.visit("#/try?p=uid%3Dann")
	w.see("0 used of 4") // without another click
}
