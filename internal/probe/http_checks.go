package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/printable"
)

// modesAdvice is the advice for doors that do not enforce.
const modesAdvice = "`curl ADMIN_ADDR/modes` shows the modes of the doors; a POST changes them."

// reportOpen reports possible reasons why none was refused.
func (h *httpProbe) reportOpen(last *response) {
	none := "none of " + printable.Count(h.sent, "request") + " was refused, and "
	switch quota := last.quota(); {
	case strings.HasPrefix(last.decision(), "observed-"):
		h.fault("refusal", "the door is in mode observe and lets refused requests pass: "+last.decision(), modesAdvice)
	case last.decision() == "off":
		h.fault("refusal", "the door is off and lets all requests pass", modesAdvice)
	case quota != "":
		h.fault("refusal", none+"the quota is "+quota, "The limit was not reached: raise --requests, or probe a URL with a smaller limit.")
	default:
		h.fault("refusal", none+"no response reports a quota: the gateway is silently open",
			"Possible causes: no rule limits this request (see `koalagate explain`), its limit is above --requests,\n"+
				"or the gateway does not call koalagate. In the last case koalagate_decisions_total in its /metrics\n"+
				"does not grow:\n"+
				"nginx: `auth_request /x?argument` lets all requests pass; `auth_request` must be set in this\n"+
				"  location or above, and the location must not use `return`;\n"+
				"Envoy: the filter is missing or `disabled` on this route, or builds no descriptor for this request;\n"+
				"  `failure_mode_allow`, and the rate limit filter without `failure_mode_deny`, fail open;\n"+
				"any gateway: it fails open, and cannot reach koalagate.")
	}
}

// checkStatus reports whether the client sees koalagate's own status. If not, it
// adds a fault.
func (h *httpProbe) checkStatus(passed, refusal *response) bool {
	if refusal.isRefusal() {
		return true
	}
	which := "the first request is answered with "
	if passed != nil {
		which = "after requests that passed, one is answered with "
	}
	which += statusText(refusal.status)
	switch {
	case refusal.status >= 500:
		h.fault("status", which+", which is not a refusal",
			"nginx turns every answer to auth_request except 2xx, 401 and 403 into 500: remove `_deny=native`,\n"+
				"  or turn it into 403 inside the auth location (docs/gateways/nginx.md);\n"+
				"any gateway: it fails closed, and koalagate is unreachable or has no store (see /readyz);\n"+
				"or the application fails or is unreachable, which gateways answer with 502 to 504.")
	case refusal.status == http.StatusForbidden || refusal.status == http.StatusUnauthorized:
		h.fault("status", which+", without koalagate's status, Retry-After and reason",
			"nginx: `error_page 401 403 = @refused` with the headers of koalagate's answer is missing (nginx/nginx.conf);\n"+
				"Envoy: ext_authz answers 403 if koalagate exceeds its timeout; `status_on_error` changes the status;\n"+
				"  over HTTP, allowed_headers must list x-forwarded-for;\n"+
				"any gateway: trusted_proxies may lack this peer, or a header is missing; koalagate's log has the reason;\n"+
				"or the application refuses the request itself.")
	default:
		h.fault("status", which,
			"This is not a refusal. Probe a URL that the application serves behind a gateway; the address of\n"+
				"koalagate itself is probed as grpc://HOST:PORT.")
	}
	return false
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return strconv.Itoa(status)
}

// checkHeaders checks the headers that tell clients when to retry.
func (h *httpProbe) checkHeaders(passed, refusal *response) {
	if refusal.status == http.StatusTooManyRequests && refusal.header.Get("Retry-After") == "" {
		h.fault("headers", "the refusal has no Retry-After", "Let the gateway pass on the headers of koalagate's answer, as the samples do.\n"+
			"Envoy's rate limit filter sets them itself: enable_retry_after_header, enable_x_ratelimit_headers.")
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "RateLimit-Limit", "Content-Type"} {
		if values := refusal.header.Values(name); len(values) > 1 {
			h.fault("headers", name+" occurs "+printable.Count(len(values), "time"), "Two settings of the gateway add it: keep one.\n"+
				"Envoy's rate limit filter adds headers of its own to the headers of ratelimit_headers: choose one of the two.")
		}
	}
	switch quota := refusal.quota(); {
	case quota != "":
		h.ok("headers", "the quota is %s; Retry-After: %s", quota, refusal.header.Get("Retry-After"))
		if h.cost > 1 {
			h.note("weight", fmt.Sprintf("each request takes %d of its quota: the rule has a cost, or the gateway checks requests more than once", h.cost),
				"nginx checks again for `index`, the last argument of `try_files`, and `error_page` with a path.")
		}
		if passed != nil && passed.quota() == "" {
			h.note("headers", "responses to requests that pass do not report the quota; the refusal does")
		}
	case refusal.status == http.StatusTooManyRequests:
		h.note("headers", "the refusal reports no quota: the gateway drops it, the rule is quiet, or `headers` is none")
	}
	if refusal.decision() == "" {
		h.note("headers", "no X-Koala-Decision: the gateway drops it, or hide_decision_headers is set")
	}
}

// checkBody checks the body of a refusal.
func (h *httpProbe) checkBody(refusal *response) {
	kind := refusal.header.Get("Content-Type")
	var problem struct{ Status int }
	switch {
	case len(refusal.body) == 0 && h.Method == http.MethodHead:
	case len(refusal.body) == 0:
		h.fault("body", "the refusal has no body", "nginx: answer with `return 429 $koala_body`, as the sample does.")
	case strings.HasPrefix(kind, "text/html"):
		h.fault("body", "the body is an HTML page, probably the gateway's own", "Let the gateway pass on koalagate's body, as the samples do.")
	case !strings.HasPrefix(kind, "application/problem+json"):
		h.ok("body", "%d bytes of %s, set by the rule", len(refusal.body), kind)
	case json.Unmarshal(refusal.body, &problem) != nil:
		h.fault("body", "the problem document is truncated or invalid", "nginx: proxy_buffer_size must hold all headers of koalagate's answer; 4k suffices.")
	case problem.Status != refusal.status:
		h.fault("body", "the problem document has status "+statusText(problem.Status)+", but the response has "+statusText(refusal.status),
			"nginx: `return` needs the status in digits: add this one to the location that answers refusals.")
	default:
		h.ok("body", "a problem document of status %d", problem.Status)
	}
}
