package nginx

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/hits"
	"github.com/koalagate/koalagate/internal/peer"
	"github.com/koalagate/koalagate/rules"
)

// The bounds of reports.
const (
	// maxReport is the maximum length of a datagram in bytes.
	maxReport = 1 << 10
	// maxReports is the number of reports that wait for their settlement.
	maxReports = 1 << 12
	// reporters is the number of reports that are settled at the same time.
	reporters = 16
)

// The reasons why a datagram is dropped.
const (
	DroppedUntrusted = "untrusted"
	DroppedTooLong   = "too_long"
	DroppedMalformed = "malformed"
	DroppedQueueFull = "queue_full"
)

// DroppedReasons returns all reasons why a datagram is dropped.
func DroppedReasons() []string {
	return []string{DroppedUntrusted, DroppedTooLong, DroppedMalformed, DroppedQueueFull}
}

// ReportOptions configure Reports. Only Engine is required.
type ReportOptions struct {
	Engine *engine.Engine
	// TrustedProxies are the peers whose datagrams are read, unless they come over a unix
	// socket. Nil means loopback and the private ranges.
	TrustedProxies []netip.Prefix
	// Dropped is called for each datagram that is dropped, with one of DroppedReasons. It
	// must return at once, and may be nil.
	Dropped func(reason string)
	// Logger receives faults in the configuration of gateways. The default is slog.Default.
	Logger *slog.Logger
}

// Reports settles receipts by the lines of nginx's access log, which arrive as datagrams
// in the form of syslog (RFC 3164): one line each, with the fields
//
//	status=200 hits=600 response.NAME=text receipt=…
//
// separated by blanks. Only the receipt is required, and - is an absent value. A datagram
// that has a field twice, or anything else, is dropped: a value with blanks could
// otherwise state other fields. Reports are not answered, so that gateways wait for
// nothing.
type Reports struct {
	engine     *engine.Engine
	trusted    []netip.Prefix
	dropped    func(reason string)
	logger     *slog.Logger
	complaints complaints
}

// NewReports returns reports that settle receipts of an engine.
func NewReports(o ReportOptions) *Reports {
	r := &Reports{engine: o.Engine, trusted: o.TrustedProxies, dropped: o.Dropped, logger: o.Logger}
	if r.trusted == nil {
		r.trusted = peer.PrivateRanges()
	}
	if r.dropped == nil {
		r.dropped = func(string) {}
	}
	if r.logger == nil {
		r.logger = slog.Default()
	}
	r.complaints.logger = r.logger
	return r
}

// Serve reads datagrams until the connection is closed, and returns when their receipts
// are settled. The error comes from the connection, nil if it was closed.
func (r *Reports) Serve(conn net.PacketConn) error {
	queue := make(chan *engine.Settlement, maxReports)
	var settling sync.WaitGroup
	for range reporters {
		settling.Go(func() {
			for s := range queue {
				r.settle(s)
			}
		})
	}
	err := r.receive(conn, queue)
	close(queue)
	settling.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// receive reads datagrams and queues their settlements until the connection fails.
func (r *Reports) receive(conn net.PacketConn, queue chan<- *engine.Settlement) error {
	var buffer [maxReport + 1]byte
	for {
		n, from, err := conn.ReadFrom(buffer[:])
		if err != nil {
			return err
		}
		s, reason := r.read(buffer[:n], from)
		if reason == "" {
			select {
			case queue <- s:
				continue
			default:
				reason = DroppedQueueFull
			}
		}
		r.drop(reason, from)
	}
}

// read returns the settlement in a datagram, or the reason to drop it.
func (r *Reports) read(datagram []byte, from net.Addr) (s *engine.Settlement, reason string) {
	if udp, is := from.(*net.UDPAddr); is && !peer.IsIn(r.trusted, udp.AddrPort().Addr()) {
		return nil, DroppedUntrusted
	}
	if len(datagram) > maxReport {
		return nil, DroppedTooLong
	}
	s, ok := readReport(datagram)
	if !ok {
		return nil, DroppedMalformed
	}
	return s, ""
}

// remedies are what to do about dropped datagrams, by reason.
var remedies = map[string]string{
	DroppedUntrusted: "if the peer is a gateway of yours, add its address to trusted_proxies",
	DroppedTooLong:   "log no more than the fields of a report to report_addr",
	DroppedMalformed: "log_format must be 'status=$status hits=… receipt=…', and no value may have blanks",
	DroppedQueueFull: "reports arrive faster than the store settles them; estimates of dropped ones stand",
}

func (r *Reports) drop(reason string, peer net.Addr) {
	r.dropped(reason)
	from := ""
	if peer != nil {
		from = peer.String()
	}
	r.complaints.warn("dropped a report about the end of a request: "+strings.ReplaceAll(reason, "_", " "), "peer", from, "remedy", remedies[reason])
}

// settle carries out one settlement. The hooks of the engine count failures.
func (r *Reports) settle(s *engine.Settlement) {
	defer func() {
		if v := recover(); v != nil {
			r.logger.Error("the settlement of a report panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	if _, err := r.engine.Settle(context.Background(), s); err != nil {
		r.complaints.warn("the receipt of a report was not settled", "error", err)
	}
}

// reportDoor is the name of reports as an entry point of settlements.
const reportDoor = "report"

// readReport reads a line of syslog: a priority, a time and a tag that end with the first
// colon before a blank, and the fields. Hits that are no whole number count as none given,
// since nobody could correct them.
func readReport(datagram []byte) (s *engine.Settlement, ok bool) {
	_, line, found := bytes.Cut(datagram, []byte(": "))
	if !found || datagram[0] != '<' {
		return nil, false
	}
	s = &engine.Settlement{Door: reportDoor, Response: new(rules.Params)}
	seen := make(map[string]bool)
	for field := range strings.SplitSeq(strings.TrimRight(string(line), "\n\x00"), " ") {
		key, value, isField := strings.Cut(field, "=")
		if !isField || seen[key] || !setReported(s, key, value) {
			return nil, false
		}
		seen[key] = true
	}
	return s, engine.ValidReceipt(s.Receipt)
}

// setReported sets a field of a report, and reports whether its key is known.
func setReported(s *engine.Settlement, key, value string) bool {
	isGiven := value != "" && value != "-"
	switch {
	case key == "receipt":
		s.Receipt = value
	case key == "hits":
		if n, ok := hits.Parse(value); ok {
			s.Hits, s.HasHits = uint64(n), true
		}
	case key == "status":
		key = rules.ResponsePrefix + key
		fallthrough
	case strings.HasPrefix(key, rules.ResponsePrefix):
		if isGiven {
			s.Response.Set(key, value)
		}
	default:
		return false
	}
	return true
}
