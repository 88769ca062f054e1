package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
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
		if got, _ := tokens.Of(one.r); got != one.want {
			t.Errorf("%s: level %d; want %d", name, got, one.want)
		}
	}
	c.at = c.at.Add(sessionTime)
	if got, _ := tokens.Of(requestTo(host, cookie)); got != None {
		t.Errorf("after its end: level %d", got)
	}
	cookie = s.Open(requestTo(host, nil), Read)
	if got, _ := tokens.Of(requestTo(host, cookie)); got != Read {
		t.Errorf("reading: level %d", got)
	}
	gone := s.Close(requestTo(host, cookie))
	if level, _ := tokens.Of(requestTo(host, cookie)); gone.MaxAge >= 0 || level != None {
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

// A refused log-in names the tokens that there are, and no other.
func TestWrongTokenNamesTheRightOnes(t *testing.T) {
	for want, tokens := range map[string]*Tokens{
		"which is in /run/koalagate/token":    {Change: "c", Made: true, File: "/run/koalagate/token"},
		"its log names the file":              {Change: "c", Made: true, File: "/run/koalagate/token", Exposed: true},
		"neither admin_token nor admin_read_": {Change: "c", Read: "r"},
		"is not admin_token":                  {Change: "c"},
		"is not admin_read_token":             {Read: "r"},
		"has no token":                        {},
	} {
		if got := tokens.Wrong(); !strings.Contains(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
