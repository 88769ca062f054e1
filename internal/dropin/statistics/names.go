package statistics

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// counter is a count with its name, or a gauge.
type counter struct {
	name    string
	value   uint64
	isGauge bool // the value is one of now, not a sum
}

const service = "ratelimit.service."

// responseTime is the name of the timer of calls.
const responseTime = "ratelimit_server.ShouldRateLimit.response_time"

// pool returns the connections to Redis.
func (s *Statistics) pool() []counter {
	read := s.connections.Load()
	if read == nil {
		return nil
	}
	const name = "ratelimit.redis_pool."
	c := (*read)()
	return []counter{
		{name: name + "cx_active", value: c.Open, isGauge: true},
		{name: name + "cx_total", value: c.Open + c.Closed},
		{name: name + "cx_local_close", value: c.Closed},
	}
}

// process returns the memory, the collections and the goroutines of the process.
func process() []counter {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const name = "ratelimit.go."
	gauge := func(of string, value uint64) counter { return counter{name: name + of, value: value, isGauge: true} }
	return []counter{
		gauge("alloc", m.Alloc), gauge("sys", m.Sys), gauge("heapAlloc", m.HeapAlloc), gauge("heapSys", m.HeapSys),
		gauge("heapIdle", m.HeapIdle), gauge("heapInuse", m.HeapInuse), gauge("heapReleased", m.HeapReleased),
		gauge("heapObjects", m.HeapObjects), gauge("nextGC", m.NextGC), gauge("lastGC", m.LastGC),
		gauge("gcCPUPercent", uint64(m.GCCPUFraction*100)), gauge("numGoroutine", uint64(runtime.NumGoroutine())),
		{name: name + "totalAlloc", value: m.TotalAlloc},
		{name: name + "lookups", value: m.Lookups},
		{name: name + "mallocs", value: m.Mallocs},
		{name: name + "frees", value: m.Frees},
		{name: name + "pauseTotalNs", value: m.PauseTotalNs},
		{name: name + "numGC", value: uint64(m.NumGC)},
	}
}

// counters returns all counts in the order of their names. A limit has counts after its
// first hit.
func (s *Statistics) counters() []counter {
	list := []counter{
		{name: service + "config_load_success", value: s.loads.Load()},
		{name: service + "config_load_error", value: s.loadErrors.Load()},
		{name: service + "global_shadow_mode", value: s.overruled.Load()},
		{name: service + "call.should_rate_limit.redis_error", value: s.storeErrors.Load()},
		{name: service + "call.should_rate_limit.service_error", value: s.requestErrors.Load()},
		{name: "ratelimit_server.ShouldRateLimit.total_requests", value: s.calls.Load()},
	}
	list = append(append(list, s.pool()...), process()...)
	s.paths.Range(func(path, counts any) bool {
		l, name := counts.(*limit), service+"rate_limit."+sanitize(path.(string))
		add := func(of string, value uint64) { list = append(list, counter{name: name + of, value: value}) }
		add(".total_hits", l.total.Load())
		add(".over_limit", l.over.Load())
		add(".near_limit", l.near.Load())
		add(".within_limit", l.within.Load())
		add(".shadow_mode", l.shadow.Load())
		add(".over_limit_with_local_cache", 0)
		if n := l.negative.Load(); n > 0 {
			add(".total_negative_hits", n)
		}
		return true
	})
	s.unknown.Range(func(domain, count any) bool {
		list = append(list, counter{name: service + "rate_limit." + sanitize(domain.(string)) + ".domain_not_found", value: count.(*atomic.Uint64).Load()})
		return true
	})
	slices.SortFunc(list, func(a, b counter) int { return strings.Compare(a.name, b.name) })
	return list
}

var (
	reserved = strings.NewReplacer(":", "_", "|", "_")
	address  = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
)

// sanitize replaces the characters that have a meaning in statsd, those that are no text, and the
// dots of addresses, which would divide the name.
func sanitize(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	return address.ReplaceAllStringFunc(reserved.Replace(name), func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
