package e2e_test

import (
	"net/http"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
)

// A client with many streams on many connections, which it may cancel at once, makes no
// check fail: at gateways that let requests pass then, none passes that koalagate refuses.
// The long form has the other gateways, too.
func TestHostileStreamsPassNoGateway(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := must(h.stage.Koalagate(h.released(), raceSettings, "--rules", h.file("rules.conf", hostileRules)))(t)
	app := h.app()
	h.offerTLS("shop.example")
	blocked := hostileRequest{line: "GET /a HTTP/1.1", headers: "Host: blocked.example"}
	for _, sample := range hostileSamples() {
		if !sample.failsOpen && !*long {
			continue
		}
		e := entrance{&sample, sample.start(h, app.Address, k), transports[3]}
		for _, cancels := range []bool{false, true} {
			before := app.Reached()
			concurrently(30, func(int) { e.flood(blocked, 100, cancels) })
			status, err := 0, error(nil)
			isRefused := becomesTrue(func() bool {
				status, err = e.send(blocked, "x", 20*time.Second)
				return status == http.StatusForbidden
			})
			if passed := app.Reached() - before; passed > 0 || !isRefused {
				t.Errorf("%s, with canceled streams %t: %d requests passed, and then one got %d, %v; want 0, and 403", sample.name, cancels, passed, status, err)
			}
		}
	}
}

// flood sends a request on many streams of one connection, and waits for the answers or
// cancels each stream.
func (e entrance) flood(r hostileRequest, streams uint32, cancels bool) {
	conn, err := e.dial(20 * time.Second)
	if err != nil {
		return // the gateway limits connections
	}
	defer conn.Close()
	c := newH2Client(conn)
	for i := range streams {
		_ = c.send(2*i+1, r.http2("x")) // the gateway may close the connection
		if cancels {
			_ = c.framer.WriteRSTStream(2*i+1, h2.ErrCodeCancel) // as above
		}
	}
	if cancels {
		return
	}
	for range streams {
		if stream, _, err := c.answer(); err != nil && stream == 0 {
			return
		}
	}
}
