package service

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

var (
	selector    = regexp.MustCompile(`\b(koalagate_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher     = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	seriesLine  = regexp.MustCompile(`(?m)^(koalagate_[a-z0-9_]+)(?:\{(.*)\})? \S+$`)
	seriesLabel = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// series is one series at /metrics: its name and labels.
type series struct {
	name   string
	labels map[string]string
}

// scrapedSeries returns the series at /metrics of a service.
func scrapedSeries(t *testing.T, s *Service) (all []series) {
	t.Helper()
	w := httptest.NewRecorder()
	s.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range seriesLine.FindAllStringSubmatch(w.Body.String(), -1) {
		one := series{line[1], make(map[string]string)}
		for _, label := range seriesLabel.FindAllStringSubmatch(line[2], -1) {
			one.labels[label[1]] = label[2]
		}
		all = append(all, one)
	}
	return all
}

// matches reports whether a series has the labels that a selector wants. Labels that
// Prometheus adds, and variables of the dashboard, match any series.
func (s *series) matches(t *testing.T, matchers string) bool {
	t.Helper()
	for _, m := range matcher.FindAllStringSubmatch(matchers, -1) {
		if m[1] == "instance" || m[1] == "job" || strings.Contains(m[3], "$") {
			continue
		}
		equal := s.labels[m[1]] == m[3]
		if strings.HasSuffix(m[2], "~") {
			equal = regexp.MustCompile("^(?:" + m[3] + ")$").MatchString(s.labels[m[1]])
		}
		if equal == strings.HasPrefix(m[2], "!") {
			return false
		}
	}
	return true
}

// Every expression of the alerts and of the dashboard finds series at a service that has
// answered calls.
func TestExpressionsFindTheirSeries(t *testing.T) {
	all := slices.Concat(scrapedSeries(t, busy(t, nil)),
		scrapedSeries(t, busy(t, map[string]any{"redis": storetest.StartServer(t).URL()})), scrapedSeries(t, busy(t, certificateFlags(t))),
		scrapedSeries(t, busy(t, map[string]any{"modes": []string{"extauthz=observe"}})))
	found := 0
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile("../../deploy/observability/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), `\"`, `"`)) {
			if !strings.Contains(line, `expr`) {
				continue
			}
			for _, use := range selector.FindAllStringSubmatch(line, -1) {
				found++
				if !slices.ContainsFunc(all, func(s series) bool { return s.name == use[1] && s.matches(t, use[2]) }) {
					t.Errorf("%s: no series matches %s", file, use[0])
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("%d selectors were read; want at least 50", found)
	}
}
