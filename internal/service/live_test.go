package service

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Events of a running service report its decisions, outlive the timeouts of requests that
// are answered once, and end with the drain.
func TestEventsOfAService(t *testing.T) {
	s, text := open(t, map[string]any{"http_receive_timeout": "3s", "http_header_timeout": "3s", "drain_wait": "30s", "drain_timeout": "40s"})
	stop := make(chan os.Signal, 2)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stop, nil) }()
	a := s.Addresses()
	resp, err := http.Get("http://" + a.Admin + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if status, body := get(t, a.HTTP, "/rule/take?uid=ann"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	lines, seconds, decided := bufio.NewScanner(resp.Body), 0, false
	for seconds < 5 || !decided {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d seconds: %v; the log:\n%s", seconds, lines.Err(), text)
		}
		if strings.HasPrefix(lines.Text(), `data: {"at":`) && strings.Contains(lines.Text(), `"span_ms":`) {
			seconds++
			decided = decided || strings.Contains(lines.Text(), `"allowed":1`)
		}
	}
	if status, body := get(t, a.Admin, "/api/v1/traffic"); status != http.StatusOK || !strings.Contains(body, `"rule": 201`) {
		t.Errorf("%d %s", status, body)
	}
	stop <- syscall.SIGTERM
	for lines.Scan() { // ends long before the wait of the drain
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
	if status, _ := get(t, a.Admin, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz in the drain: %d", status)
	}
	time.Sleep(2 * sameSignal) // a signal at the same moment is an echo
	stop <- syscall.SIGTERM
	<-ended
}
