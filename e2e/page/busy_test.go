package page

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// held is the rest of a request that has the only place for lengthy requests.
type held struct {
	*fleet
	conn net.Conn
}

// hold takes the only place for lengthy requests by a request whose body does not end.
func (f *fleet) hold() *held {
	f.Helper()
	conn, err := net.Dial("tcp", f.one.Admin)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST /api/v1/check HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", f.one.Admin, changeToken); err != nil {
		f.Fatal(err)
	}
	f.until("the request has the place", func() bool { return f.asks() == http.StatusTooManyRequests })
	return &held{f, conn}
}

// free ends the request by closing its connection.
func (h *held) free() {
	h.Helper()
	if err := h.conn.Close(); err != nil {
		h.Error(err)
	}
}

// asks asks a lengthy question and returns the status.
func (f *fleet) asks() int {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, "http://"+f.one.Admin+"/api/v1/why", strings.NewReader(`{"params":{"uid":"ann"}}`))
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
// Retry-After by itself. If the place is taken for longer, it says so, and what to do.
func TestBusyInstance(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := fileFleet(t, ruleFile)
	w := open(t, f.one.Admin, "", desk, unauthorized, tooMany)
	w.giveToken(readToken)
	w.see("Rules that refuse")
	place := f.hold()
	w.visit("#/try?p=uid%3Dann")
	f.until("the page has its first 429", func() bool { return w.reported(tooMany) })
	place.free()
	w.see("0 used of 4") // without another click

	place = f.hold()
	w.click("Ask why")
	w.see("The page has asked 3 times. Wait until the other one has its answer, and ask again.")
	place.free()
	w.click("Ask why")
	w.see("0 used of 4")
}
