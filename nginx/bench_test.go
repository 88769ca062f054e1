package nginx_test

import (
	"bufio"
	"bytes"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/koalagate/koalagate/nginx"
)

// sink is a ResponseWriter without costs, so that benchmarks measure only the door.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// BenchmarkDoors measures a check at each door, from its handler to the store in process
// and back, without net/http.
func BenchmarkDoors(b *testing.B) {
	nginxAsks := func(uri string) []string { return viaNginx("GET", uri) }
	caddyAsks := func(uri string) []string { return viaCaddy("GET", uri) }
	envoyAsks := func(string) []string { return []string{"X-Forwarded-For", "192.0.2.1"} }
	for _, door := range []struct {
		path    string
		subtree bool // the request's path follows
		headers func(uri string) []string
		refusal int
	}{
		{"/v1/auth-request", false, nginxAsks, 403},
		{"/v1/forward-auth", false, caddyAsks, 429},
		{"/v1/ext-authz", true, envoyAsks, 429},
		{"/v1/accel", false, nginxAsks, 429},
	} {
		for _, c := range []struct {
			name, target string
			status       int // of the last answer
		}{
			{"without a rule", "/", 200},
			{"below a limit", "/roomy", 200},
			{"over a limit", "/comments", door.refusal},
			{"black list", "/black", 403},
		} {
			b.Run(door.path[len("/v1/"):]+"/"+c.name, func(b *testing.B) {
				target := door.path
				if door.subtree {
					target += c.target
				}
				r := httptest.NewRequest("GET", target, nil)
				r.RemoteAddr = "127.0.0.1:1"
				for list := door.headers(c.target); len(list) > 0; list = list[2:] {
					r.Header.Set(list[0], list[1])
				}
				answer(b, nginx.New(options(b)), r, c.status)
			})
		}
	}
}

// answer measures h answering r repeatedly.
func answer(b *testing.B, h http.Handler, r *http.Request, status int) {
	b.Helper()
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
	if w.status != status {
		b.Fatalf("status %d; want %d", w.status, status)
	}
}

// BenchmarkOverTheWire measures what a door adds to net/http: a check over a persistent
// loopback connection, the same call of a handler with a constant answer including all
// headers, and the same call of a handler with a bare 200. The three alternate, so that
// other load on the machine affects all of them; `ratio` and `ratio-bare` are medians
// over the rounds.
func BenchmarkOverTheWire(b *testing.B) {
	for _, door := range []struct {
		name     string
		question string
	}{
		{"auth-request", head("GET", "/v1/auth-request", viaNginx("GET", "/roomy")...)},
		{"forward-auth", head("GET", "/v1/forward-auth", viaCaddy("GET", "/roomy")...)},
		{"ext-authz", head("GET", "/v1/ext-authz/roomy", "X-Forwarded-For", "192.0.2.1")},
		{"accel", head("GET", "/v1/accel", viaNginx("GET", "/roomy")...)},
	} {
		b.Run(door.name, func(b *testing.B) {
			const turn = 50
			question := []byte(door.question)
			handlers := []http.Handler{nginx.New(options(b)), constant(answerTo(b, question)), constant(nil)}
			asks := make([]func([]byte), len(handlers))
			for i, h := range handlers {
				asks[i] = dialTo(b, h)
			}
			var ratio, bare []float64
			var spent [3]time.Duration
			for b.Loop() {
				var took [3]time.Duration
				for i, ask := range asks {
					start := time.Now()
					for range turn {
						ask(question)
					}
					took[i] = time.Since(start)
					spent[i] += took[i]
				}
				ratio = append(ratio, float64(took[0])/float64(took[1]))
				bare = append(bare, float64(took[0])/float64(took[2]))
			}
			slices.Sort(ratio)
			slices.Sort(bare)
			calls := float64(turn * len(ratio))
			b.ReportMetric(float64(spent[0])/calls, "ns/call")
			b.ReportMetric(float64(spent[1])/calls, "constant-ns/call")
			b.ReportMetric(ratio[len(ratio)/2], "ratio")
			b.ReportMetric(bare[len(bare)/2], "ratio-bare")
		})
	}
}

// answerTo returns the headers of a door's answer.
func answerTo(b *testing.B, question []byte) http.Header {
	b.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(question)))
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	nginx.New(options(b)).ServeHTTP(w, r)
	return w.Header()
}

// constant returns a handler that answers every call with 200 and these headers.
func constant(headers http.Header) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), headers)
		w.WriteHeader(http.StatusOK)
	})
}

// dialTo serves h and returns a function that sends a request over one connection.
func dialTo(b *testing.B, h http.Handler) func(question []byte) {
	b.Helper()
	conn, err := net.Dial("tcp", serve(b, h).Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	buffer := make([]byte, 4096)
	return func(question []byte) {
		if _, err := conn.Write(question); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(buffer) // an answer without a body is one packet
		if err != nil || !bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 200")) {
			b.Fatalf("%s, %v", buffer[:n], err)
		}
	}
}
