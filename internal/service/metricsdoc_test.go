package service

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// family is a family of metrics: its type and the labels of its series.
type family struct{ kind, labels string }

// scraped returns the families at /metrics of a service by name.
func scraped(t *testing.T, s *Service) map[string]family {
	t.Helper()
	w := httptest.NewRecorder()
	s.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	found := make(map[string]family)
	name := ""
	label := regexp.MustCompile(`[{,]([a-z_]+)="`)
	for line := range strings.Lines(w.Body.String()) {
		if typed, ok := strings.CutPrefix(line, "# TYPE koalagate_"); ok {
			rest, kind, _ := strings.Cut(strings.TrimSpace(typed), " ")
			name = "koalagate_" + rest
			found[name] = family{kind: kind}
			continue
		}
		f, ok := found[name]
		if !ok || !strings.HasPrefix(line, name) {
			name = ""
			continue
		}
		var labels []string
		for _, m := range label.FindAllStringSubmatch(line[:strings.LastIndex(line, " ")], -1) {
			if m[1] != "le" {
				labels = append(labels, m[1])
			}
		}
		slices.Sort(labels)
		f.labels = strings.Join(labels, " ")
		found[name] = f
	}
	return found
}

// metricRow is a row of docs/metrics.md.
var metricRow = regexp.MustCompile("(?m)^\\| `(koalagate_[a-z0-9_]+)` \\| (counter|gauge|histogram) \\| (—|`[a-z` ]+`) \\| (.+) \\|$")

// docs/metrics.md has a row for each family of metrics, with its type and labels, and
// marks families that exist only with a setting.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := metricRow.FindAllStringSubmatch(string(text), -1)
	if all := strings.Count(string(text), "\n| `koalagate_"); all != len(rows) {
		t.Errorf("docs/metrics.md: %d rows of metrics, but %d have the form | `name` | type | `label` `label` | meaning. |", all, len(rows))
	}
	plain := scraped(t, busy(t, nil))
	withRedis := scraped(t, busy(t, map[string]any{"redis": storetest.StartServer(t).URL()}))
	withTLS := scraped(t, busy(t, certificateFlags(t)))
	documented := make(map[string]bool)
	for _, row := range rows {
		name, meaning := row[1], row[4]
		if documented[name] {
			t.Errorf("docs/metrics.md: %s has two rows", name)
		}
		documented[name] = true
		from := plain
		for mark, of := range map[string]map[string]family{"only with `redis`": withRedis, "only with `grpc_tls_cert`": withTLS} {
			if !strings.Contains(meaning, mark) {
				continue
			}
			from = of
			if _, always := plain[name]; always {
				t.Errorf("docs/metrics.md: %s exists without the setting too, but is marked %q", name, mark)
			}
		}
		labels := strings.Fields(strings.NewReplacer("`", "", "—", "").Replace(row[3]))
		slices.Sort(labels)
		got, exists := from[name]
		if want := (family{row[2], strings.Join(labels, " ")}); !exists || got != want {
			t.Errorf("docs/metrics.md: %s is %+v; the service has %+v (exists: %v)", name, want, got, exists)
		}
	}
	for _, of := range []map[string]family{plain, withRedis, withTLS} {
		for name, f := range of {
			if !documented[name] {
				t.Errorf("docs/metrics.md: add %s, a %s with the labels %s", name, f.kind, f.labels)
				documented[name] = true
			}
		}
	}
}

// busy returns a service that has made decisions of every kind.
func busy(t *testing.T, flags map[string]any) *Service {
	t.Helper()
	s, _ := open(t, flags)
	for range 3 {
		s.web.Handler.ServeHTTP(httptest.NewRecorder(), checkOf("ann"))
	}
	s.metrics.RuleDecided(201, "", "deny")
	s.metrics.ShadowDecided(201, "", "deny")
	s.metrics.Waited(201, "", time.Second)
	s.metrics.Verified("main", "unavailable")
	s.metrics.Begun(metrics.GRPC)
	s.metrics.GRPCAnswered("/envoy.service.auth.v3.Authorization/Check", codes.OK.String())
	return s
}

// checkOf returns a check of a user at /v1/auth-request.
func checkOf(uid string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/auth-request?uid="+uid, nil)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Original-Method", "GET")
	r.Header.Set("X-Original-Uri", "/")
	r.Header.Set("X-Real-Ip", "198.51.100.7")
	return r
}

// Every documented family is at /metrics from the start, before the first call, so that alerts and
// dashboards about it work.
func TestDocumentedMetricsAreThereFromTheStart(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := certificateFlags(t)
	flags["redis"] = storetest.StartServer(t).URL()
	s, _ := open(t, flags)
	fresh := scraped(t, s)
	rows := metricRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 50 {
		t.Errorf("docs/metrics.md has %d rows", len(rows))
	}
	for _, row := range rows {
		if _, exists := fresh[row[1]]; !exists {
			t.Errorf("%s is not at /metrics of a service that has just started", row[1])
		}
	}
}
