package statistics

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// counter is a count with its name.
type counter struct {
	name  string
	value uint64
}

const service = "ratelimit.service."

// responseTime is the name of the timer of calls.
const responseTime = "ratelimit_server.ShouldRateLimit.response_time"

// counters returns all counts in the order of their names. Those of a limit exist once it
// has been counted on.
func (s *Statistics) counters() []counter {
	list := []counter{
		{service + "config_load_success", s.loads.Load()},
		{service + "config_load_error", s.loadErrors.Load()},
		{service + "global_shadow_mode", s.overruled.Load()},
		{service + "call.should_rate_limit.redis_error", s.storeErrors.Load()},
		{service + "call.should_rate_limit.service_error", s.requestErrors.Load()},
		{"ratelimit_server.ShouldRateLimit.total_requests", s.calls.Load()},
	}
	s.paths.Range(func(path, counts any) bool {
		l, name := counts.(*limit), service+"rate_limit."+sanitize(path.(string))
		list = append(list, counter{name + ".total_hits", l.total.Load()}, counter{name + ".over_limit", l.over.Load()},
			counter{name + ".near_limit", l.near.Load()}, counter{name + ".within_limit", l.within.Load()},
			counter{name + ".shadow_mode", l.shadow.Load()}, counter{name + ".over_limit_with_local_cache", 0})
		if n := l.negative.Load(); n > 0 {
			list = append(list, counter{name + ".total_negative_hits", n})
		}
		return true
	})
	s.unknown.Range(func(domain, count any) bool {
		list = append(list, counter{service + "rate_limit." + sanitize(domain.(string)) + ".domain_not_found", count.(*atomic.Uint64).Load()})
		return true
	})
	slices.SortFunc(list, func(a, b counter) int { return strings.Compare(a.name, b.name) })
	return list
}

var (
	reserved = strings.NewReplacer(":", "_", "|", "_", "\n", "_")
	address  = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
)

// sanitize replaces what has a meaning in statsd, and the dots of addresses, which would
// divide the name.
func sanitize(name string) string {
	return address.ReplaceAllStringFunc(reserved.Replace(name), func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
