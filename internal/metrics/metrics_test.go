package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/metrics"
)

func scrape(t testing.TB, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, text)
	}
	return string(text)
}

func TestEventsAreExported(t *testing.T) {
	m := metrics.New(metrics.Build{Version: "1.2.3", Revision: "abc"})
	m.Decided("extauthz", "deny")
	m.Decided("extauthz", "deny")
	m.Decided("koala", metrics.Unavailable)
	m.RuleDecided(201, "posts", "deny")
	m.ShadowDecided(301, "", "challenge")
	m.Rescued()
	m.Evaluated(3 * time.Millisecond)
	m.Lagged(3 * time.Millisecond)
	m.Loaded(1, "before", 16, time.UnixMilli(1000))
	m.Loaded(2, "abc", 17, time.UnixMilli(1500))
	m.Refused(time.UnixMilli(2500))
	m.Degraded(true)

	got := scrape(t, m)
	if strings.Contains(got, `hash="before"`) {
		t.Error("the hash of the previous rules is still exported")
	}
	for _, want := range []string{
		`koalagate_decisions_total{door="extauthz",verdict="deny"} 2`,
		`koalagate_decisions_total{door="koala",verdict="unavailable"} 1`,
		`koalagate_rule_decisions_total{name="posts",rule="201",verdict="deny"} 1`,
		`koalagate_rule_shadow_total{name="",rule="301",verdict="challenge"} 1`,
		`koalagate_store_errors_total 1`,
		`koalagate_rescued_total 1`,
		`koalagate_evaluate_seconds_bucket{le="0.0025"} 0`,
		`koalagate_evaluate_seconds_bucket{le="0.005"} 1`,
		`koalagate_scheduler_lag_seconds_bucket{le="0.0025"} 0`,
		`koalagate_scheduler_lag_seconds_bucket{le="0.005"} 1`,
		`koalagate_rules_generation 2`,
		`koalagate_rules_info{hash="abc"} 1`,
		`koalagate_rules 17`,
		`koalagate_rules_loaded_timestamp_seconds 1.5`,
		`koalagate_rules_last_load_ok 0`,
		`koalagate_rules_last_error_timestamp_seconds 2.5`,
		`koalagate_rules_loads_total{outcome="refused"} 1`,
		`koalagate_store_degraded 1`,
		`revision="abc",version="1.2.3"} 1`,
		"go_goroutines ",
	} {
		if !strings.Contains(got, want+"\n") && !strings.Contains(got, "\n"+want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	m.Restored()
	if !strings.Contains(scrape(t, m), "koalagate_rules_last_load_ok 1") {
		t.Error("the gauge is not 1 although the files are valid again")
	}
}

// TestWaitsAreExported records waits of rules, of which one is removed by a reload.
func TestWaitsAreExported(t *testing.T) {
	m := metrics.New(metrics.Build{})
	m.WatchWaiting(func() int { return 3 })
	m.LoadRules([]metrics.RuleLabels{{7, "queue"}, {8, ""}})
	m.Waited(7, "queue", 200*time.Millisecond)
	m.Waited(8, "", time.Second)
	want := func(texts ...string) {
		t.Helper()
		got := scrape(t, m)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("the metrics have no %q", text)
			}
		}
	}
	want("koalagate_waiting_calls 3\n", `koalagate_wait_seconds_sum{name="queue",rule="7"} 0.2`, `koalagate_wait_seconds_count{name="",rule="8"} 1`)
	m.LoadRules([]metrics.RuleLabels{{7, "queue"}})
	m.Waited(8, "", time.Second) // its call was in progress
	want(`koalagate_wait_seconds_count{name="queue",rule="7"} 1`)
	if strings.Contains(scrape(t, m), `rule="8"`) {
		t.Error("the waits of a removed rule are still exported")
	}
}

func TestEveryMetricHasHelp(t *testing.T) {
	m := metrics.New(metrics.Build{})
	m.Decided("koala", "allow")
	m.RuleDecided(1, "", "allow")
	m.ShadowDecided(1, "", "deny")
	m.Refused(time.Now())
	text := scrape(t, m)
	typed := regexp.MustCompile(`(?m)^# TYPE (koalagate_\S+)`).FindAllStringSubmatch(text, -1)
	if len(typed) < 12 {
		t.Fatalf("only %d metrics of koalagate in\n%s", len(typed), text)
	}
	for _, name := range typed {
		if !regexp.MustCompile(`(?m)^# HELP ` + name[1] + ` \S.+\.$`).MatchString(text) {
			t.Errorf("the help of %s is missing or not a sentence", name[1])
		}
	}
}

func TestRulesBeyondTheLimitShareASeries(t *testing.T) {
	m := metrics.New(metrics.Build{})
	var callers sync.WaitGroup
	for start := range 4 {
		callers.Go(func() {
			for n := range 1500 {
				m.RuleDecided(int64(1+(n+start*375)%1500), "name", "deny")
			}
		})
	}
	callers.Wait()
	text := scrape(t, m)
	if n := strings.Count(text, "koalagate_rule_decisions_total{"); n < 1000 || n > 1010 {
		t.Errorf("%d series; want 1000 and one for the other rules", n)
	}
	if !strings.Contains(text, `{name="",rule="other",verdict="deny"}`) {
		t.Error("the rules beyond the limit are not counted")
	}
}

// TestSeriesOfRulesEndWithThem checks which decisions are exported after a reload that
// renames a rule, keeps one, and moves one behind the first thousand.
func TestSeriesOfRulesEndWithThem(t *testing.T) {
	m := metrics.New(metrics.Build{})
	m.LoadRules([]metrics.RuleLabels{{Number: 201}, {Number: 202, Name: "kept"}, {Number: 203, Name: "moved"}})
	decide := func(number int64, name string) {
		m.RuleDecided(number, name, "deny")
		m.ShadowDecided(number, name, "deny")
	}
	decide(201, "")
	decide(202, "kept")
	decide(203, "moved")
	list := []metrics.RuleLabels{{Number: 201, Name: "named"}, {Number: 202, Name: "kept"}}
	for n := range int64(998) {
		list = append(list, metrics.RuleLabels{Number: 1000 + n})
	}
	m.LoadRules(append(list, metrics.RuleLabels{Number: 203, Name: "moved"}))
	decide(201, "named")
	decide(202, "kept")
	decide(203, "moved")
	decide(203, "moved")
	for _, metric := range []string{"rule_decisions", "rule_shadow"} {
		got := regexp.MustCompile("koalagate_"+metric+"_total({.*)").FindAllString(scrape(t, m), -1)
		want := []string{
			"koalagate_" + metric + `_total{name="",rule="other",verdict="deny"} 2`,
			"koalagate_" + metric + `_total{name="kept",rule="202",verdict="deny"} 2`,
			"koalagate_" + metric + `_total{name="named",rule="201",verdict="deny"} 1`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	m.LoadRules([]metrics.RuleLabels{{Number: 202, Name: "kept"}})
	decide(201, "named") // a call that began before the reload
	if text := scrape(t, m); strings.Contains(text, "named") || !strings.Contains(text, `_decisions_total{name="kept",rule="202",verdict="deny"} 2`) {
		t.Errorf("the removed rule has series, or the other one lost its count:\n%s", text)
	}
}

// Paths of imported limits, authors and notes, which are any texts, fail no scrape, add no line and
// control no terminal.
func TestHostileTextsOfLabels(t *testing.T) {
	m := metrics.New(metrics.Build{})
	m.Published(1, "", "")
	m.LoadLimits([]string{"d.one", "d.two"})
	harmless := strings.Count(scrape(t, m), "\n")
	for name, text := range map[string]string{
		"sequences of terminals": "\x1b[2J\x1b]0;t\x07\u009b2J\x7f",
		"further lines":          "a\r\nkoalagate_rules 9\n",
		"another direction":      "a\u202eb\u2066",
		"no UTF-8":               "a\xff\xc0\xaf",
		"an end of the text":     `"} 9`,
		"HTML":                   "<script>alert(1)</script>",
		"a formula":              "=1+1",
	} {
		m.Published(1, text, text)
		counts := m.LoadLimits([]string{"d." + text, "d." + text + "\x1b", "d." + text + "\x00"})
		for _, c := range counts {
			c.Refused()
		}
		page := scrape(t, m)
		if n := strings.Count(page, "\n"); n != harmless {
			t.Errorf("%s: %d lines; want %d", name, n, harmless)
		}
		if i := strings.IndexFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(page) {
			t.Errorf("%s: the page has %q", name, page[max(i, 0):min(len(page), max(i, 0)+20)])
		}
		if !regexp.MustCompile(`koalagate_rule_refused_total\{name="d\..*�",rule="imported"\} 2`).MatchString(page) {
			t.Errorf("%s: limits whose paths are printed alike have no common count", name)
		}
	}
}

func TestCountingDoesNotAllocate(t *testing.T) {
	m := metrics.New(metrics.Build{})
	count := func() {
		m.Decided("extauthz", "allow")
		m.RuleDecided(201, "posts", "allow")
		m.Evaluated(time.Millisecond)
	}
	count()
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations per decision", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	m := metrics.New(metrics.Build{})
	for b.Loop() {
		m.Decided("extauthz", "allow")
		m.RuleDecided(201, "posts", "allow")
		m.Evaluated(time.Millisecond)
	}
}
