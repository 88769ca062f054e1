package statistics_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// counted returns statistics of some calls.
func counted() *statistics.Statistics {
	s := statistics.New(0.8)
	ten := &envoylimits.Limit{Path: "d.route_r1.user.more", Requests: 10}
	s.Counted("d.route_r1.user.more", ten, 10, 7, 0, 7)
	s.Counted("d.route_r1.user.more", ten, 10, 5, 7, 12)
	s.Counted("d.route_r1.user.other", ten, 10, 1, 12, 13)
	s.Counted("d.ip_192.0.2.1", &envoylimits.Limit{Path: "d.ip_192.0.2.1", Requests: 1, Shadow: true}, 1, 2, 0, 2)
	s.UnknownDomain("nobody")
	s.StoreFailed()
	s.Loaded(true)
	s.Called(20 * time.Millisecond)
	s.WatchConnections(func() statistics.Connections { return statistics.Connections{Open: 3, Closed: 4} })
	return s
}

func TestHitsAreDividedByTheLimit(t *testing.T) {
	var b strings.Builder
	if err := counted().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"ratelimit.service.rate_limit.d.route_r1.user.more.total_hits: 12", "ratelimit.service.rate_limit.d.route_r1.user.more.within_limit: 7",
		"ratelimit.service.rate_limit.d.route_r1.user.more.over_limit: 2", "ratelimit.service.rate_limit.d.route_r1.user.more.near_limit: 2",
		"ratelimit.service.rate_limit.d.ip_192_0_2_1.shadow_mode: 1", "ratelimit.service.rate_limit.nobody.domain_not_found: 1",
		"ratelimit.redis_pool.cx_active: 3", "ratelimit.redis_pool.cx_total: 7", "ratelimit.redis_pool.cx_local_close: 4",
		"ratelimit.service.call.should_rate_limit.redis_error: 1", "ratelimit.service.config_load_success: 1",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
}

// scrape returns a page of Prometheus.
func scrape(t *testing.T, m *statistics.Mapper) string {
	t.Helper()
	w := httptest.NewRecorder()
	counted().Handler(m).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetricsHaveTheNamesOfEnvoyGateway(t *testing.T) {
	m, err := statistics.LoadMapper("", false)
	if err != nil {
		t.Fatal(err)
	}
	page := scrape(t, m)
	for _, line := range []string{
		`ratelimit_service_rate_limit_total_hits{domain="d",key1="route_r1",key2="user"} 13`,
		`ratelimit_service_rate_limit_over_limit{domain="d",key1="route_r1",key2="user"} 3`,
		`ratelimit_service_rate_limit_shadow_mode{domain="d",key1="ip_192_0_2_1",key2=""} 1`,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 1`,
		`ratelimit_service_should_rate_limit_error{err_type="redis_error"} 1`,
		`ratelimit_service_config_load_success 1`,
		`# TYPE ratelimit_redis_pool_cx_active gauge`, `ratelimit_redis_pool_cx_total 7`, `# TYPE ratelimit_go_numGoroutine gauge`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.025"} 1`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.005"} 0`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="10"} 1`,
		`ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"} 0.02`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
}

func TestMapperFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mapper.yaml")
	text := `mappings:
  - match: "ratelimit.service.rate_limit.*.*.*.*.total_hits"
    name: "hits"
    timer_type: histogram
    labels: { deep: "$4", domain: "${1}" }
  - match: "ratelimit\\.service\\.(config_load_.*)"
    match_type: regex
    match_metric_type: counter
    name: "own_$1"
  - match: "."
    match_type: regex
    action: drop
  - match: "ratelimit_server.*.response_time"
    name: "took"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := statistics.LoadMapper(file, false)
	if err != nil {
		t.Fatal(err)
	}
	page := scrape(t, m)
	for _, line := range []string{`hits{deep="more",domain="d"} 12`, `own_config_load_success 1`, `took_sum 20`, `took_bucket{le="10"} 0`, `took_bucket{le="0.005"} 0`, `took_bucket{le="+Inf"} 1`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
	for _, faulty := range []string{"mappings: 1", `mappings: [{match: "(", match_type: regex, name: n}]`, `mappings: [{match: a}]`, `mappings: [{match: a, name: n, match_type: like}]`} {
		if err := os.WriteFile(file, []byte(faulty), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := statistics.LoadMapper(file, false); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v; want an error that names the file", faulty, err)
		}
	}
}

func TestStatsdReceivesDifferences(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := counted()
	d := &statistics.Statsd{Statistics: s, Address: l.Addr().String(), Interval: 10 * time.Millisecond, Tags: map[string]string{"zone": "a"}, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	lines := bufio.NewScanner(conn)
	const name = "ratelimit.service.rate_limit.d.route_r1.user.more.total_hits.__zone=a:"
	const gauge = "ratelimit.redis_pool.cx_active.__zone=a:3|g"
	gauges := 0
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), gauge) {
				gauges++
			}
			if got, found := strings.CutPrefix(lines.Text(), name); found {
				if got != want {
					t.Errorf("got %s; want %s", got, want)
				}
				return
			}
		}
		t.Fatalf("no line, %v", lines.Err())
	}
	await("12|c")
	s.Counted("d.route_r1.user.more", &envoylimits.Limit{Requests: 10}, 10, 3, 12, 15)
	await("3|c")
	if gauges < 2 {
		t.Errorf("%d gauges; want one at each interval", gauges)
	}
}

// Domains are what a gateway sends: they add no line and no statistic, control no terminal, and
// fail no page of Prometheus.
func TestHostileDomains(t *testing.T) {
	s := counted()
	s.UnknownDomain("a\x1b[2J\nforged: 9\r\x00\u202e\u009b\xff|c")
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if want := "ratelimit.service.rate_limit.a_[2J_forged_ 9______c.domain_not_found: 1\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is missing in\n%q", want, b.String())
	}
	m, err := statistics.LoadMapper("", false)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler(m).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); w.Code != 200 || strings.ContainsAny(text, "\x1b\r\x00\u202e\u009b") || !strings.Contains(text, "ratelimit") {
		t.Errorf("%d %q", w.Code, text)
	}
}
