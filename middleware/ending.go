package middleware

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// statusName is the parameter of the response with the status.
const statusName = rules.ResponsePrefix + "status"

// ending is how a request with a receipt ends. It writes the response of the handler, and
// remembers its status.
type ending struct {
	http.ResponseWriter
	server *server
	ctx    context.Context
	status int // 0 before the header is written

	mu         sync.Mutex // guards the rest
	settlement engine.Settlement
	hijacked   bool
	settled    bool
}

// endingKey is the key of the ending in the context of a request.
type endingKey struct{}

// endingOf returns the ending of the request that ctx belongs to, nil without a receipt.
func endingOf(ctx context.Context) *ending {
	e, _ := ctx.Value(endingKey{}).(*ending)
	return e
}

// Receipt returns the receipt of the request that ctx belongs to, for handlers that renew
// it with Engine.Renew, or "" without one. The middleware settles it when the handler
// ends.
func Receipt(ctx context.Context) string {
	if e := endingOf(ctx); e != nil {
		return e.settlement.Receipt
	}
	return ""
}

// SetHits states the number of hits that the request used, 0 … 10^15, which replaces the
// estimates of rules with settle=SECONDS when the handler ends. Without it they stand. A
// larger number, such as a negative one that was converted to uint64, is logged and counts
// as not stated. SetHits has no effect on a request without a receipt.
func SetHits(ctx context.Context, hits uint64) {
	e := endingOf(ctx)
	switch {
	case e == nil:
	case hits > engine.MaxHits:
		e.server.Logger.Error("a handler stated too many hits, which count as not stated", "door", Door, "hits", hits, "most", uint64(engine.MaxHits))
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.settlement.Hits, e.settlement.HasHits = hits, true
	}
}

// SetResponse states a parameter of the response: with the name tokens it is
// response.tokens in rules. The middleware states response.status itself. It has no effect
// on a request without a receipt.
func SetResponse(ctx context.Context, name, value string) {
	if e := endingOf(ctx); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.settlement.Response.Set(rules.ResponsePrefix+name, value)
	}
}

// serve calls the handler of a request with a receipt, and settles it when the handler
// ends, also by a panic. A connection that the handler took over is settled when it is
// closed.
func (s *server) serve(w http.ResponseWriter, r *http.Request, next http.Handler, receipt string) {
	e := &ending{ResponseWriter: w, server: s, settlement: engine.Settlement{Receipt: receipt, Door: Door, Response: new(rules.Params)}}
	ctx := r.Context()
	e.ctx = ctx
	returned := false
	defer func() {
		e.end(false, !returned)
	}()
	own := r.WithContext(context.WithValue(ctx, endingKey{}, e))
	defer keepForm(r, own)
	next.ServeHTTP(e, own)
	returned = true
}

// end settles the receipt, once. A connection that was taken over is settled when it is
// closed, which another goroutine may do. panicked reports that the handler ended by a panic.
func (e *ending) end(closed, panicked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if panicked && e.status == 0 {
		e.status = http.StatusInternalServerError // net/http closes the connection
	}
	if e.settled || e.hijacked && !closed {
		return
	}
	e.settled = true
	if e.status == 0 && !e.hijacked {
		e.status = http.StatusOK
	}
	if e.status > 0 {
		e.settlement.Response.Set(statusName, strconv.Itoa(e.status))
	}
	got, err := e.server.Engine.Settle(e.ctx, &e.settlement)
	switch {
	case err != nil:
		e.server.Logger.Error("a request was not settled", "door", Door, "error", err)
	case !got.Known:
		e.server.Logger.Debug("a receipt was settled before, or has expired", "door", Door)
	}
}

// WriteHeader writes the header and remembers the status. Informational responses precede
// the response.
func (e *ending) WriteHeader(status int) {
	if e.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (e *ending) Write(b []byte) (int, error) {
	e.implicit()
	return e.ResponseWriter.Write(b)
}

// ReadFrom writes a part of the body from r, so that files need no copy in this process.
func (e *ending) ReadFrom(r io.Reader) (int64, error) {
	e.implicit()
	return io.Copy(e.ResponseWriter, r)
}

// implicit remembers the status of a response whose handler wrote none.
func (e *ending) implicit() {
	if e.status == 0 {
		e.status = http.StatusOK
	}
}

// Flush sends what was written.
func (e *ending) Flush() {
	e.implicit()
	_ = http.NewResponseController(e.ResponseWriter).Flush() // not supported: it is sent later
}

// Unwrap returns the writer of the server, for http.ResponseController.
func (e *ending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Hijack lets the handler take over the connection, whose holds end when it is closed.
func (e *ending) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(e.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hijacked = true
	return &takenOver{Conn: conn, ending: e}, buffer, nil
}

// takenOver is a connection that a handler took over.
type takenOver struct {
	net.Conn
	ending *ending
}

// Close closes the connection and settles the receipt.
func (c *takenOver) Close() error {
	defer c.ending.end(true, false)
	return c.Conn.Close()
}
