package nginx_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/nginx"
)

// patience is the time limit for answers that must arrive at once.
const patience = 10 * time.Second

// connection is a raw connection of a gateway.
type connection struct {
	net.Conn
	reader *bufio.Reader
	t      *testing.T
}

func dial(t *testing.T) *connection {
	t.Helper()
	s := serve(t, nginx.New(options(t)))
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &connection{c, bufio.NewReader(c), t}
}

// head returns the head of a check, up to its body.
func head(method, target string, headers ...string) string {
	var b strings.Builder
	b.WriteString(method + " " + target + " HTTP/1.1\r\nHost: koala\r\n")
	for i := 0; i+1 < len(headers); i += 2 {
		b.WriteString(headers[i] + ": " + headers[i+1] + "\r\n")
	}
	return b.String() + "\r\n"
}

func (c *connection) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *connection) receive() *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		c.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// ends reports whether the door closed the connection without further bytes.
func (c *connection) ends() bool {
	_, err := c.reader.ReadByte()
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}

func TestDenialsKeepTheConnection(t *testing.T) {
	c := dial(t)
	for range 50 {
		c.send(head("GET", "/v1/auth-request", viaNginx("GET", "/black")...))
		if res := c.receive(); res.StatusCode != 403 || res.Close {
			t.Fatalf("%d, close %v; want 403 on a kept connection", res.StatusCode, res.Close)
		}
	}
}

func TestBodySentWithTheHeadersKeepsTheConnection(t *testing.T) {
	for name, sent := range map[string]string{
		"a form":  head("POST", "/v1/auth-request", append(viaNginx("POST", "/black"), "Content-Length", "7")...) + "a=1&b=2",
		"2 kB":    head("POST", "/v1/auth-request", append(viaNginx("POST", "/black"), "Content-Length", "2000")...) + strings.Repeat("x", 2000),
		"chunked": head("POST", "/v1/forward-auth", append(viaCaddy("POST", "/black"), "Transfer-Encoding", "chunked")...) + "7\r\na=1&b=2\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t)
			for range 3 {
				c.send(sent)
				if res := c.receive(); res.StatusCode != 403 || res.Close {
					t.Fatalf("%d, close %v; want 403 on a kept connection", res.StatusCode, res.Close)
				}
			}
		})
	}
}

// A gateway that forwards a length without a body receives its answer at once. What it
// sends next must be read neither as that body nor as a check, because a client could
// choose where the check begins.
func TestMissingBodyIsNotAwaited(t *testing.T) {
	for name, headers := range map[string][]string{
		"a length":            {"Content-Length", "70"},
		"a great length":      {"Content-Length", "1000000000"},
		"chunks":              {"Transfer-Encoding", "chunked"},
		"a question for more": {"Content-Length", "70", "Expect", "100-continue"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t)
			c.send(head("POST", "/v1/auth-request", append(viaNginx("POST", "/black"), headers...)...))
			res := c.receive()
			if res.StatusCode != 403 || !res.Close {
				t.Fatalf("%d, close %v; want 403 and the end of the connection", res.StatusCode, res.Close)
			}
			// The connection may be closed already, which is safe too.
			_, _ = io.WriteString(c, strings.Repeat("x", 70)+head("GET", "/v1/auth-request", viaNginx("GET", "/")...))
			if !c.ends() {
				t.Error("the connection carried another check")
			}
		})
	}
}

// A gateway that sends a long body receives the answer while it sends, and can read it
// before the connection is closed.
func TestCheckWithALongBodyIsAnswered(t *testing.T) {
	s := serve(t, nginx.New(options(t)))
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/auth-request", strings.NewReader(strings.Repeat("x", 8<<20)))
	if err != nil {
		t.Fatal(err)
	}
	for h := viaNginx("POST", "/black"); len(h) > 0; h = h[2:] {
		r.Header.Set(h[0], h[1])
	}
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 403 {
		t.Errorf("%d; want 403", res.StatusCode)
	}
}

func TestHeadersStayBelowTwoKilobytes(t *testing.T) {
	for _, target := range []string{"/long", "/teapot", "/comments"} {
		c := dial(t)
		c.send(head("GET", "/v1/auth-request", append(viaNginx("GET", target), "X-Size", strconv.Itoa(1<<20))...))
		size := 0
		for {
			line, err := c.reader.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			size += len(line)
			if line == "\r\n" {
				break
			}
		}
		if size >= 2048 {
			t.Errorf("%s: the headers are %d bytes", target, size)
		}
	}
}

// The headers of an entry may exceed the limit, but Content-Type is still sent.
func TestContentTypeIsKeptWithManyHeaders(t *testing.T) {
	o := options(t)
	o.Engine.Swap(parse(t, strings.Replace(ruleFile, `"Http_status":418, "Headers":{"Location":"/tea", "X-Pot":"short", "X-Accel-Redirect":"@app"}, "Body":"{\n  \"stout\": true\n}"`,
		`"Http_status":418, "Headers":{"X-Pot":"`+strings.Repeat("x", 1700)+`"}`, 1)))
	s := serve(t, nginx.New(o))
	for _, c := range []struct{ target, want string }{{"/teapot", "application/problem+json"}, {"/black", "application/problem+json"}} {
		res := check(t, s, "GET", "/v1/forward-auth", viaCaddy("GET", c.target)...)
		if got := res.Header["Content-Type"]; len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: the type is %q; want %q", c.target, got, c.want)
		}
	}
}
