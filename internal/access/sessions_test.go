package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// clock is a clock that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newSessions() (*Sessions, *clock) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	s := NewSessions("/api/v1/")
	s.now = c.now
	return s, c
}

// requestTo returns a request with cookies and headers as alternating names and values.
func requestTo(host string, cookie *http.Cookie, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+"/api/v1/rules", http.NoBody)
	r.RemoteAddr = "192.0.2.1:4711"
	if cookie != nil {
		r.AddCookie(cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// A session has its level until it ends, for pages of its own origin alone.
func TestSessions(t *testing.T) {
	const host = "127.0.0.1:9982"
	s, c := newSessions()
	tokens := &Tokens{Change: "c", Read: "r", Sessions: s}
	cookie := s.Open(requestTo(host, nil), Change)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/api/v1/" || cookie.Secure || len(cookie.Value) < 26 {
		t.Errorf("%+v", cookie)
	}
	forged := *cookie
	forged.Value = "x"
	for name, one := range map[string]struct {
		r    *http.Request
		want Level
	}{
		"its page":               {requestTo(host, cookie, "Sec-Fetch-Site", "same-origin"), Change},
		"a program":              {requestTo(host, cookie), Change},
		"with the reading token": {requestTo(host, cookie, "Authorization", "Bearer r"), Change},
		"another port":           {requestTo("127.0.0.1:9983", cookie), None},
		"a page of another port": {requestTo(host, cookie, "Sec-Fetch-Site", "same-site"), None},
		"another site":           {requestTo(host, cookie, "Sec-Fetch-Site", "cross-site"), None},
		"another origin":         {requestTo(host, cookie, "Origin", "http://evil.example"), None},
		"a forged cookie":        {requestTo(host, &forged), None},
		"no cookie":              {requestTo(host, nil), None},
	} {
		if got := tokens.Of(one.r); got != one.want {
			t.Errorf("%s: level %d; want %d", name, got, one.want)
		}
	}
	c.at = c.at.Add(sessionTime)
	if got := tokens.Of(requestTo(host, cookie)); got != None {
		t.Errorf("after its end: level %d", got)
	}
	cookie = s.Open(requestTo(host, nil), Read)
	if got := tokens.Of(requestTo(host, cookie)); got != Read {
		t.Errorf("reading: level %d", got)
	}
	if gone := s.Close(requestTo(host, cookie)); gone.MaxAge >= 0 || tokens.Of(requestTo(host, cookie)) != None {
		t.Error("the session goes on after its end")
	}
}

// Of too many sessions the oldest ends.
func TestSessionsAreBounded(t *testing.T) {
	s, c := newSessions()
	first := s.Open(requestTo("h:1", nil), Change)
	for range maxSessions {
		c.at = c.at.Add(time.Second)
		s.Open(requestTo("h:1", nil), Change)
	}
	if len(s.open) != maxSessions || s.Of(requestTo("h:1", first)) != None {
		t.Errorf("%d sessions", len(s.open))
	}
}

// A peer has five failures in a minute. Other peers can still log in.
func TestFailedLogInsAreLimited(t *testing.T) {
	s, c := newSessions()
	r := requestTo("h:1", nil)
	for range triesPerMinute {
		if s.Wait(r) != 0 {
			t.Fatal("refused before the fifth failure")
		}
		s.Failed(r)
	}
	if got := s.Wait(r); got != time.Minute {
		t.Errorf("wait %v", got)
	}
	other := requestTo("h:1", nil)
	other.RemoteAddr = "192.0.2.2:1"
	if got := s.Wait(other); got != 0 {
		t.Errorf("another peer waits %v", got)
	}
	c.at = c.at.Add(time.Minute)
	if got := s.Wait(r); got != 0 {
		t.Errorf("after a minute: wait %v", got)
	}
}

// Many peers cannot fill the memory, and share their tries beyond the bound. The
// addresses of one IPv6 network are one peer.
func TestFailedPeersAreBounded(t *testing.T) {
	s, _ := newSessions()
	r := requestTo("h:1", nil)
	for i := range 2 * maxTriers {
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)
		s.Failed(r)
	}
	if len(s.failed) > maxTriers+1 {
		t.Errorf("%d peers", len(s.failed))
	}
	if r.RemoteAddr = "192.0.2.7:1"; s.Wait(r) == 0 {
		t.Error("a peer beyond the bound does not wait")
	}
	s, _ = newSessions()
	for i := range triesPerMinute {
		r.RemoteAddr = fmt.Sprintf("[2001:db8::%d]:1", i+1)
		s.Failed(r)
	}
	if r.RemoteAddr = "[2001:db8::77]:1"; s.Wait(r) == 0 {
		t.Error("another address of the network does not wait")
	}
}
