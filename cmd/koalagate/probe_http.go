package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"
)

// maxProbeBody is what is read of an answer; more costs the connection.
const maxProbeBody = 1 << 20

// sight is what was seen of one answer.
type sight struct {
	status int
	header http.Header
	body   []byte
	last   bool // on its connection, as the gateway says
}

// decision is what koalagate says that it decided; "" if the gateway does not
// hand it on.
func (s *sight) decision() string { return s.header.Get("X-Koala-Decision") }

// isRefusal tells whether the answer says of itself that it refuses.
func (s *sight) isRefusal() bool {
	return s.status == http.StatusTooManyRequests || s.decision() == "deny" || s.decision() == "challenge"
}

// walk is a probe over HTTP on its way.
type walk struct {
	*probe
	client *http.Client
	sent   int
	opened int // connections
	// weight is the least that one request took of its quota, 0 where no two
	// answers told.
	weight int64
}

// probeHTTP looks at a URL behind a gateway.
func (p *probe) probeHTTP(ctx context.Context) {
	w := &walk{probe: p, client: &http.Client{
		Timeout:       p.timeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, DisableCompression: true, TLSClientConfig: p.tls.config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer w.client.CloseIdleConnections()
	first, err := w.send(ctx, "", nil)
	if err != nil {
		p.report.fault("reach", err.Error(), "Nothing answers there: is the gateway up, and is this its address?")
		return
	}
	passed, refusal, err := w.untilRefused(ctx, first)
	switch {
	case err != nil:
		p.report.fault("reach", err.Error(), "The gateway stopped answering while it was probed.")
	case refusal == nil:
		w.neverRefused(passed)
	default:
		w.refused(ctx, first, passed, refusal)
	}
}

// send sends one request, with a further query and headers.
func (w *walk) send(ctx context.Context, query string, headers http.Header) (*sight, error) {
	target := *w.target
	if query != "" {
		if target.RawQuery != "" {
			target.RawQuery += "&"
		}
		target.RawQuery += query
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			w.opened++
		}
	}})
	request, err := http.NewRequestWithContext(ctx, w.method, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, all := range []http.Header{w.header, headers} {
		for name, values := range all {
			if strings.EqualFold(name, "Host") {
				request.Host = values[0]
			}
			request.Header[name] = values
		}
	}
	w.sent++
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProbeBody))
	return &sight{response.StatusCode, response.Header, body, response.Close}, err
}

// untilRefused sends requests until an answer is another one than the first,
// or says of itself that it refuses. It returns the last answer before that,
// and the refusal, nil without one.
func (w *walk) untilRefused(ctx context.Context, first *sight) (passed, refusal *sight, err error) {
	if first.isRefusal() || first.status >= 400 {
		return nil, first, nil
	}
	passed = first
	for w.sent < w.requests {
		s, err := w.send(ctx, "", nil)
		if err != nil {
			return nil, nil, err
		}
		if s.isRefusal() || s.status != first.status && s.status >= 400 {
			return passed, s, nil
		}
		w.weigh(passed, s)
		passed = s
	}
	return passed, nil, nil
}

// weigh looks at how much a request has taken of its quota. Others may have
// taken from it at the same time, so the least of all requests counts.
func (w *walk) weigh(before, after *sight) {
	had, err1 := strconv.ParseInt(before.header.Get("RateLimit-Remaining"), 10, 64)
	has, err2 := strconv.ParseInt(after.header.Get("RateLimit-Remaining"), 10, 64)
	if took := had - has; err1 == nil && err2 == nil && took > 0 && (w.weight == 0 || took < w.weight) {
		w.weight = took
	}
}

// neverRefused explains why every request may have passed.
func (w *walk) neverRefused(last *sight) {
	switch quota := quotaOf(last); {
	case strings.HasPrefix(last.decision(), "observed-"):
		w.report.fault("refusal", "requests are let through that would be refused: "+last.decision(),
			"The door is in mode observe: `curl ADMIN_ADDR/modes` tells, and changes it.")
	case last.decision() == "off":
		w.report.fault("refusal", "the door is off, and lets everything through", "`curl ADMIN_ADDR/modes` tells, and changes it.")
	case quota != "":
		w.report.fault("refusal", "none of "+plural(w.sent, "request")+" was refused, and the quota is "+quota,
			"That the limit holds is not shown: give --requests more, or probe a URL with a smaller limit.")
	default:
		w.report.fault("refusal", "none of "+plural(w.sent, "request")+" was refused, and no answer tells of a quota: it is silently open",
			"Either no rule limits this request (`koalagate explain` tells), or it has more room than --requests,\n"+
				"or koalagate is not asked. See koalagate_decisions_total at its /metrics; if it does not grow:\n"+
				"nginx: `auth_request /x?argument` lets everything through; `auth_request` must stand in this\n"+
				"  location or above, and the location must not `return`;\n"+
				"Envoy: the filter is missing or `disabled` on this route, or it makes no descriptor of this request;\n"+
				"  `failure_mode_allow`, and the rate limit filter without `failure_mode_deny`, fail open;\n"+
				"any gateway: it fails open, and koalagate cannot be reached from it.")
	}
}

// quotaOf is what an answer says of the client's quota, "" for nothing.
func quotaOf(s *sight) string {
	if policy := s.header.Get("RateLimit-Policy"); policy != "" {
		return policy + ", of which is left " + s.header.Get("RateLimit")
	}
	if limit := s.header.Get("RateLimit-Limit"); limit != "" {
		return limit + ", of which " + s.header.Get("RateLimit-Remaining") + " is left"
	}
	if limit := s.header.Get("X-RateLimit-Limit"); limit != "" {
		return limit + ", of which " + s.header.Get("X-RateLimit-Remaining") + " is left"
	}
	return ""
}

// refused looks at a refusal from all sides.
func (w *walk) refused(ctx context.Context, first, passed, refusal *sight) {
	if !w.trueStatus(passed, refusal) {
		return
	}
	if rule := refusal.header.Get("X-Koala-Rule"); rule != "" {
		w.report.ok("refusal", "request %d is refused with %d, by rule %s", w.sent, refusal.status, rule)
	} else {
		w.report.ok("refusal", "request %d is refused with %d", w.sent, refusal.status)
	}
	w.headers(passed, refusal)
	w.body(refusal)
	if w.connections(ctx, refusal) {
		w.forging(ctx, first)
	}
}

// trueStatus tells whether the client sees koalagate's own status; else it has
// said what it sees, and why.
func (w *walk) trueStatus(passed, refusal *sight) bool {
	after := "the first request"
	if passed != nil {
		after = "after requests that passed, one"
	}
	switch {
	case refusal.isRefusal():
		return true
	case refusal.status >= 500:
		w.report.fault("status", after+" is answered with "+statusText(refusal.status)+", which is no refusal",
			"nginx makes a 500 of every answer to auth_request but 2xx, 401 and 403: leave `_deny=native` away,\n"+
				"  or turn it into 403 inside the auth location (docs/gateways/nginx.md);\n"+
				"any gateway: it fails closed, and koalagate cannot be reached from it or has no store: see /readyz;\n"+
				"or the application itself fails, or is not there: gateways make 502 to 504 of that.")
	case refusal.status == http.StatusForbidden || refusal.status == http.StatusUnauthorized:
		w.report.fault("status", after+" is answered with "+statusText(refusal.status)+" and nothing of koalagate's: no true status, no Retry-After, no reason",
			"nginx: `error_page 401 403 = @refused` with the headers of koalagate's answer is missing (nginx/nginx.conf);\n"+
				"Envoy: ext_authz says 403 where koalagate does not answer within its timeout: `status_on_error` says another;\n"+
				"  over HTTP allowed_headers has to list x-forwarded-for;\n"+
				"any gateway: this peer may not be in trusted_proxies, or a header is missing: koalagate's log says so;\n"+
				"or the application itself refuses.")
	default:
		w.report.fault("status", after+" is answered with "+statusText(refusal.status),
			"That is no refusal: is this a URL that the application serves, behind a gateway? The address of\n"+
				"koalagate itself is probed as grpc://HOST:PORT.")
	}
	return false
}

// headers looks for what tells a client when to come back.
func (w *walk) headers(passed, refusal *sight) {
	if refusal.status == http.StatusTooManyRequests && refusal.header.Get("Retry-After") == "" {
		w.report.fault("headers", "the refusal has no Retry-After", "Have the gateway hand on the headers of koalagate's answer: the samples do.\n"+
			"Envoy's rate limit filter makes them itself: enable_retry_after_header, enable_x_ratelimit_headers.")
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "RateLimit-Limit", "Content-Type"} {
		if values := refusal.header.Values(name); len(values) > 1 {
			w.report.fault("headers", name+" stands there "+plural(len(values), "time"), "Two of the gateway's settings add it: keep one.\n"+
				"Envoy's rate limit filter adds its own where koalagate has ratelimit_headers: choose one of them.")
		}
	}
	switch quota := quotaOf(refusal); {
	case quota != "":
		w.report.ok("headers", "the quota is %s; Retry-After: %s", quota, refusal.header.Get("Retry-After"))
		if w.weight > 1 {
			w.report.note("weight", fmt.Sprintf("each request takes %d of its quota: the rule has a cost, or the gateway asks more than once", w.weight))
			w.report.line("", "", "nginx: `index`, the last argument of `try_files` and `error_page` with a path are asked about again.")
		}
		if passed != nil && quotaOf(passed) == "" {
			w.report.note("headers", "what is let through does not tell its client the quota; the refusal does")
		}
	case refusal.status == http.StatusTooManyRequests:
		w.report.note("headers", "the refusal tells of no quota: the gateway drops it, the rule is quiet, or `headers` is none")
	}
	if refusal.decision() == "" {
		w.report.note("headers", "no X-Koala-Decision: the gateway drops it, or hide_decision_headers is set")
	}
}

// body looks at what the client is told in words.
func (w *walk) body(refusal *sight) {
	kind := refusal.header.Get("Content-Type")
	var problem struct{ Status int }
	switch {
	case len(refusal.body) == 0 && w.method == http.MethodHead:
	case len(refusal.body) == 0:
		w.report.fault("body", "the refusal has no body", "nginx: answer with `return 429 $koala_body`, as the sample does.")
	case !strings.HasPrefix(kind, "application/problem+json"):
		if strings.HasPrefix(kind, "text/html") {
			w.report.fault("body", "the body is a page of HTML, the gateway's own it seems", "Have the gateway hand on koalagate's body: the samples do.")
		} else {
			w.report.ok("body", "%d bytes of %s, the rule's own words", len(refusal.body), kind)
		}
	case json.Unmarshal(refusal.body, &problem) != nil:
		w.report.fault("body", "the problem document is cut off or spoilt", "nginx: proxy_buffer_size must hold all headers of koalagate's answer; 4k does.")
	case problem.Status != refusal.status:
		w.report.fault("body", "the problem document speaks of status "+statusText(problem.Status)+", the client sees "+statusText(refusal.status),
			"nginx: `return` wants its status in digits: add this one to the location that answers refusals.")
	default:
		w.report.ok("body", "a problem document of status %d", problem.Status)
	}
}

// connections sends more requests that are refused, and tells whether they
// still are.
func (w *walk) connections(ctx context.Context, refusal *sight) (stillRefused bool) {
	const more = 8
	opened, ended, start := w.opened, 0, time.Now()
	for range more {
		s, err := w.send(ctx, "", nil)
		if err != nil {
			w.report.fault("connections", err.Error(), "The gateway stopped answering while it was probed.")
			return false
		}
		if s.status != refusal.status {
			w.report.note("refusal", "then a request passed again: the window has closed, so that nothing more can be shown")
			return false
		}
		if s.last {
			ended++
		}
	}
	took := time.Since(start) / more
	switch n := w.opened - opened; {
	case n > more/2:
		w.report.fault("connections", plural(more, "refused request")+" cost "+plural(n, "connection"),
			"Refusals close the client's connection: a client that is refused then costs more than one that is not.\n"+
				"Is keepalive switched off, or does the gateway answer refusals with `Connection: close`?")
	case ended > 0: // as gateways do after so many requests
		w.report.note("connections", plural(ended, "connection")+" ended over "+plural(more, "refused request")+": most were kept")
	default: // net/http opens another one, too, where the way to the gateway is slow
		w.report.ok("connections", "kept over refusals, %s each", took.Round(10*time.Microsecond))
	}
	return true
}
