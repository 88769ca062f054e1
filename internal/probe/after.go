package probe

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/printable"
)

const (
	// afterRounds is the number of requests that must find the quota of the first.
	afterRounds = 3
	// afterPause is the first pause before a request is sent again, which doubles.
	afterPause = 10 * time.Millisecond
)

// The advice of probeAfter.
const (
	unreported = "koalagate has received no report that the request ended; koalagate_settlements_total in its /metrics does not\n" +
		"grow then, or grows with the result unknown. Possible causes:\n" +
		"no [hold] rule limits this request (see `koalagate explain`), or other clients use the same quota;\n" +
		"Envoy: the rate limit filter sends no descriptor with koala.receipt and apply_on_stream_done, as\n" +
		"  envoy/envoy.yaml does, or comes after a filter that refuses;\n" +
		"nginx: the access log does not go to report_addr (docs/gateways/nginx.md), or the datagrams are dropped:\n" +
		"  koalagate_reports_dropped_total;\n" +
		"other gateways report nothing: the application settles, by POST /v1/settle."
	noAfterQuota = "The probe compares quotas: it needs a [hold] rule without quiet=1, and a gateway that passes on\n" +
		"the RateLimit headers."
)

// probeAfter checks whether the gateway reports the ends of requests: a hold rule then has
// as much left after each of several requests as after the first, although none of its
// holds has run out.
func (h *httpProbe) probeAfter(ctx context.Context, first *response) {
	left, ends, ok := first.hold()
	switch {
	case first.isRefusal() || first.status >= 400:
		h.fault("after", "the first request is answered with "+statusText(first.status), "Probe a URL and a client whose requests pass.")
		return
	case !ok:
		h.fault("after", "the response reports no quota", noAfterQuota)
		return
	case ends <= time.Second:
		h.fault("after", "the quota returns by itself after a second", "Probe a URL whose [hold] rule has a longer time.")
		return
	}
	begin, found, pause := time.Now(), 0, afterPause
	patience := min(h.Timeout, ends-time.Second) // the header has whole seconds, rounded up
	var reported time.Duration
	for found < afterRounds {
		r, err := h.send(ctx, h.request())
		if err != nil {
			h.fault("reach", err.Error(), stopped)
			return
		}
		if got, _, ok := r.hold(); ok && !r.isRefusal() && got >= left {
			if found++; found == 1 {
				reported = time.Since(begin)
			}
			continue
		}
		found = 0
		if time.Since(begin)+pause > patience {
			h.fault("after", "requests that have ended still count after "+patience.String(), unreported)
			return
		}
		if !delay.Wait(ctx, pause) {
			h.fault("reach", ctx.Err().Error(), stopped)
			return
		}
		pause *= 2
	}
	h.ok("after", "the gateway reports the ends of requests, the first within %s: %s have as much left as the first",
		reported.Round(time.Millisecond), printable.Count(h.sent-1, "more request"))
}

// hold returns what the response says that is left of its quota, and the time until the
// quota is whole.
func (r *response) hold() (left int64, ends time.Duration, ok bool) {
	remaining, reset := r.header.Get("RateLimit-Remaining"), r.header.Get("RateLimit-Reset")
	for part := range strings.SplitSeq(r.header.Get("RateLimit"), ";") {
		if value, is := strings.CutPrefix(part, "r="); is {
			remaining = value
		}
		if value, is := strings.CutPrefix(part, "t="); is {
			reset = value
		}
	}
	left, err1 := strconv.ParseInt(remaining, 10, 64)
	seconds, err2 := strconv.ParseInt(reset, 10, 64)
	return left, time.Duration(seconds) * time.Second, err1 == nil && err2 == nil
}
