package probe

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/printable"
)

// maxBody limits the bytes that are read of a response; a longer one costs the
// connection.
const maxBody = 1 << 20

// stopped is the advice for a gateway that fails during the probe.
const stopped = "The gateway stopped answering during the probe."

// response is what matters of one response.
type response struct {
	status int
	header http.Header
	body   []byte
	last   bool // the gateway announced to close the connection
}

// decision returns koalagate's decision; "" if the gateway does not pass it on.
func (r *response) decision() string { return r.header.Get("X-Koala-Decision") }

// isRefusal reports whether the response is marked as a refusal.
func (r *response) isRefusal() bool {
	return r.status == http.StatusTooManyRequests || r.decision() == "deny" || r.decision() == "challenge"
}

// quota returns what the response says about the client's quota; "" if nothing.
func (r *response) quota() string {
	if policy := r.header.Get("RateLimit-Policy"); policy != "" {
		return policy + ", left: " + r.header.Get("RateLimit")
	}
	for _, prefix := range []string{"RateLimit", "X-RateLimit"} {
		if limit := r.header.Get(prefix + "-Limit"); limit != "" {
			return limit + ", left: " + r.header.Get(prefix+"-Remaining")
		}
	}
	return ""
}

// httpProbe is a probe of a gateway over HTTP.
type httpProbe struct {
	*prober
	client *http.Client
	sent   int // requests
	opened int // connections
	// cost is the smallest amount that a request took of its quota; 0 if unknown.
	cost int64
}

// probeHTTP probes a URL behind a gateway.
func (p *prober) probeHTTP(ctx context.Context) {
	h := &httpProbe{prober: p, client: &http.Client{
		Timeout:       p.Timeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, DisableCompression: true, TLSClientConfig: p.TLS},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer h.client.CloseIdleConnections()
	first, err := h.send(ctx, h.request())
	if err != nil {
		p.fault("reach", err.Error(), "No response: check that the gateway runs and that this is its address.")
		return
	}
	if p.After {
		h.probeAfter(ctx, first)
		return
	}
	passed, refusal, err := h.untilRefused(ctx, first)
	switch {
	case err != nil:
		p.fault("reach", err.Error(), stopped)
	case refusal == nil:
		h.reportOpen(passed)
	case h.checkStatus(passed, refusal):
		h.checkRefusal(ctx, first, passed, refusal)
	}
}

// checkRefusal checks all aspects of a refusal that koalagate made.
func (h *httpProbe) checkRefusal(ctx context.Context, first, passed, refusal *response) {
	if rule := refusal.header.Get("X-Koala-Rule"); rule != "" {
		h.ok("refusal", "request %d is refused with %d, by rule %s", h.sent, refusal.status, rule)
	} else {
		h.ok("refusal", "request %d is refused with %d", h.sent, refusal.status)
	}
	h.checkHeaders(passed, refusal)
	h.checkBody(refusal)
	if h.checkConnections(ctx, refusal) {
		h.checkForgeries(ctx, first)
	}
}

// send sends one request.
func (h *httpProbe) send(ctx context.Context, sent request) (*response, error) {
	target := *h.Target
	target.RawQuery = sent.query
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			h.opened++
		}
	}})
	request, err := http.NewRequestWithContext(ctx, h.Method, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, values := range sent.header {
		if strings.EqualFold(name, "Host") {
			request.Host = values[0]
		}
		request.Header[name] = values
	}
	h.sent++
	r, err := h.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	return &response{r.StatusCode, r.Header, body, r.Close}, err
}

// untilRefused sends requests until a response is marked as a refusal or has
// another status of an error than the first. It returns the last response before
// that, and the refusal; nil without one.
func (h *httpProbe) untilRefused(ctx context.Context, first *response) (passed, refusal *response, err error) {
	if first.isRefusal() || first.status >= 400 {
		return nil, first, nil
	}
	passed = first
	for h.sent < h.Requests {
		r, err := h.send(ctx, h.request())
		if err != nil {
			return nil, nil, err
		}
		if r.isRefusal() || r.status != first.status && r.status >= 400 {
			return passed, r, nil
		}
		h.noteCost(passed, r)
		passed = r
	}
	return passed, nil, nil
}

// noteCost derives the cost of a request from the quotas of two responses. Other
// clients may use the same quota, so the smallest cost counts.
func (h *httpProbe) noteCost(before, after *response) {
	had, err1 := strconv.ParseInt(before.header.Get("RateLimit-Remaining"), 10, 64)
	has, err2 := strconv.ParseInt(after.header.Get("RateLimit-Remaining"), 10, 64)
	if cost := had - has; err1 == nil && err2 == nil && cost > 0 && (h.cost == 0 || cost < h.cost) {
		h.cost = cost
	}
}

// checkConnections sends more requests that are refused and checks that they
// keep the connection. It reports whether they were still refused.
func (h *httpProbe) checkConnections(ctx context.Context, refusal *response) bool {
	const more = 8
	opened, ended, start := h.opened, 0, time.Now()
	for range more {
		r, err := h.send(ctx, h.request())
		if err != nil {
			h.fault("connections", err.Error(), stopped)
			return false
		}
		if r.status != refusal.status {
			h.note("refusal", "a later request passed: the window ended, so the remaining checks are skipped; probe again")
			return false
		}
		if r.last {
			ended++
		}
	}
	duration := time.Since(start) / more
	switch n := h.opened - opened; {
	case n > more/2:
		h.fault("connections", printable.Count(more, "refused request")+" used "+printable.Count(n, "connection"),
			"Refusals close the client's connection, so that a refused client costs more than another one.\n"+
				"Check whether keepalive is disabled or the gateway sends refusals with `Connection: close`.")
	case ended > 0: // gateways end connections after a number of requests
		h.note("connections", printable.Count(ended, "connection")+" ended during "+printable.Count(more, "refused request")+"; most were kept")
	default: // net/http may open another connection if the network is slow
		h.ok("connections", "kept across refusals, %s each", duration.Round(10*time.Microsecond))
	}
	return true
}
