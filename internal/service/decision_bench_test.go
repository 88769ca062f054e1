package service

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

const benchmarkRules = `[rules]
rule : [count] [uid=+] [time=3600; count=1000000000] [result=2; return=201]
rule : [count] [org=+] [time=3600; count=1000000000] [result=2; return=202]
rule : [count] [app=+] [time=3600; count=1000000000] [result=2; return=203]
rule : [count] [key=+] [time=3600; count=1000000000] [result=2; return=204]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"Deny"}
`

// openBenchmark returns an open service with four rules, which counts in process.
func openBenchmark(b *testing.B) *Service {
	b.Helper()
	path := filepath.Join(b.TempDir(), "rules.conf")
	if err := os.WriteFile(path, []byte(benchmarkRules), 0o600); err != nil {
		b.Fatal(err)
	}
	loaded, err := config.Load(config.Input{Flags: map[string]any{
		"rules": []string{path}, "grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0",
	}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), Options{Config: loaded, Log: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkCheck measures a check over HTTP with everything that the service counts,
// without the network.
func BenchmarkCheck(b *testing.B) {
	s := openBenchmark(b)
	defer s.Close()
	for name, target := range map[string]string{
		"one rule":   "/v1/auth-request?uid=1000000001",
		"four rules": "/v1/auth-request?uid=1000000001&org=1000000001&app=1000000001&key=1000000001",
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, target, nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("X-Original-Method", "GET")
			r.Header.Set("X-Original-URI", "/")
			r.Header.Set("X-Real-IP", "198.51.100.7")
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				clear(w.header)
				s.web.Handler.ServeHTTP(w, r)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkCheckOverLoopback measures the same check with the network, including its
// client, which only writes and reads bytes.
func BenchmarkCheckOverLoopback(b *testing.B) {
	s := openBenchmark(b)
	defer s.Close()
	go func() { _ = s.web.Serve(s.listeners.http) }()
	defer s.web.Close()
	conn, err := net.Dial("tcp", s.Addresses().HTTP)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	request := []byte("GET /v1/auth-request?uid=1000000001 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\nX-Real-IP: 198.51.100.7\r\n\r\n")
	reply := make([]byte, 4096)
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(reply)
		if err != nil || !bytes.HasPrefix(reply[:n], []byte("HTTP/1.1 200")) {
			b.Fatalf("%v: %s", err, reply[:n])
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// processorTime returns the processor time of this process so far in nanoseconds. On a
// busy machine it varies less than the time that passes.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// discard is a ResponseWriter without allocations.
type discard struct{ header http.Header }

// Header returns the header, which is cleared before each call.
func (d *discard) Header() http.Header { return d.header }

// Write discards the body.
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader discards the status.
func (d *discard) WriteHeader(int) {}
