package statistics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
)

// WriteText writes all counts as lines of name: value.
func (s *Statistics) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, c := range s.counters() {
		fmt.Fprintf(b, "%s: %d\n", c.name, c.value)
	}
	return b.Flush()
}

// Statsd sends counts to statsd over TCP.
type Statsd struct {
	Statistics *Statistics
	Address    string
	Interval   time.Duration
	// Tags are appended to each name, as .__name=value.
	Tags map[string]string
	// Logger receives connections that fail, at debug level: nothing needs to listen.
	Logger *slog.Logger

	sent     map[string]uint64 // counts, by name
	sentTime uint64            // the sum of the times of calls, in µs
	conn     net.Conn
}

// dialTimeout bounds a connection and a flush.
const dialTimeout = 2 * time.Second

// Run sends the counts since the last flush at each interval, and once more when ctx is
// done. Counts that cannot be sent are sent with the next flush.
func (d *Statsd) Run(ctx context.Context) {
	d.sent = make(map[string]uint64)
	ticker := time.NewTicker(d.Interval)
	defer ticker.Stop()
	for isLast := false; !isLast; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			isLast = true
		}
		if err := d.flush(context.WithoutCancel(ctx)); err != nil {
			d.Logger.Debug("statsd does not receive the statistics", "address", d.Address, "error", err)
		}
	}
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// flush sends the differences to the last flush.
func (d *Statsd) flush(ctx context.Context) error {
	text, counts, took := d.lines()
	if len(text) == 0 {
		return nil
	}
	if d.conn == nil {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", d.Address)
		if err != nil {
			return err
		}
		d.conn = conn
	}
	_ = d.conn.SetDeadline(time.Now().Add(dialTimeout))
	if _, err := d.conn.Write(text); err != nil {
		_ = d.conn.Close()
		d.conn = nil
		return err
	}
	for _, c := range counts {
		d.sent[c.name] = c.value
	}
	d.sentTime = took
	return nil
}

// lines returns the lines to send, and the counts and the sum of times that they contain.
func (d *Statsd) lines() (text []byte, counts []counter, took uint64) {
	var tags strings.Builder
	names := make([]string, 0, len(d.Tags))
	for name := range d.Tags {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		tags.WriteString(".__" + sanitize(name) + "=" + sanitize(d.Tags[name]))
	}
	calls := uint64(0)
	for _, c := range d.Statistics.counters() {
		if c.isGauge {
			text = fmt.Appendf(text, "%s%s:%d|g\n", c.name, tags.String(), c.value)
			continue
		}
		n := c.value - d.sent[c.name]
		if n == 0 {
			continue
		}
		if strings.HasSuffix(c.name, ".total_requests") {
			calls = n
		}
		text = fmt.Appendf(text, "%s%s:%d|c\n", c.name, tags.String(), n)
		counts = append(counts, c)
	}
	took = d.Statistics.tookSum.Load()
	if calls > 0 {
		// One line with the mean: a line for each call would be most of the traffic.
		text = fmt.Appendf(text, "%s%s:%.3f|ms\n", responseTime, tags.String(), float64(took-d.sentTime)/float64(calls)/1000)
	}
	return text, counts, took
}
