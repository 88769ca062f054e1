package statistics

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// Calls that statsd did not receive are in the next flush, with their times.
func TestUnsentCallsKeepTheirTimes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := New(0.8)
	d := &Statsd{Statistics: s, Address: "127.0.0.1:bad", sent: make(map[string]uint64)}
	s.Called(10 * time.Millisecond)
	s.Called(30 * time.Millisecond)
	if err := d.flush(t.Context()); err == nil {
		t.Fatal("the address has no port, and the flush no error")
	}
	d.Address = l.Addr().String()
	s.Called(80 * time.Millisecond)
	if err := d.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = d.conn.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if mean, found := strings.CutPrefix(lines.Text(), responseTime+":"); found {
			if mean != "40.000|ms" {
				t.Errorf("the mean of 10, 30 and 80 ms is %s", mean)
			}
			return
		}
	}
	t.Error("no line with the mean time of a call")
}
