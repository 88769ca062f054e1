package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestOperatorsAskAboutImportedLimits asks a running program about its limits, with rules
// beside them.
func TestOperatorsAskAboutImportedLimits(t *testing.T) {
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", `domain: d
descriptors:
- {key: k, rate_limit: {unit: year, requests_per_unit: 2, name: small}}
- {key: free, rate_limit: {unlimited: true}}
- key: outer
  descriptors:
  - {key: inner, rate_limit: {unit: day, requests_per_unit: 7}}`))
	file := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(file, []byte("[rules]\nrule : [count] [k=+] [time=86400; count=5] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "KOALAGATE_RULES="+file)
	r.calls("d", "k", "v", 200, 200, 429)
	why := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := runs(t, append([]string{"why", "--admin", r.debug, "--door", "ratelimit"}, args...)...)
		if code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
		return stdout
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"domain=d", "k=v"}, []string{
			"deny by limit d.k\n", "limit d.k\n  name       small\n  limit      at most 2 per year\n  counter    3 used of 2, 0 remaining, the window ends in ",
			"\n  outcome    decides\n", "rule 201", "2 used of 5, 3 remaining",
		}},
		{[]string{"domain=d", "k=w"}, []string{"allow: no rule refuses\n", "0 used of 2, 2 remaining", "outcome    passes"}},
		{[]string{"domain=d", "free=x"}, []string{"limit      unlimited\n  outcome    passes"}},
		{[]string{"domain=d", "outer=x", "inner=x"}, []string{"limit d.outer.inner\n", "0 used of 7"}},
		{[]string{"inner=x", "outer=x", "domain=d"}, []string{`no limit applies: nothing below "d" matches "inner=x" (there are "free", "k", "outer")`}},
		{[]string{"--format", "json", "domain=d", "k=v"}, []string{`"verdict": "deny"`, `"decider": 0`, `"status": 429`, `"path": "d.k"`, `"used": 3`, `"counted": true`}},
	} {
		got := why(c.args...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("why %v: no %q in\n%s", c.args, want, got)
			}
		}
	}
	if again := why("domain=d", "k=v"); !strings.Contains(again, "3 used of 2") {
		t.Errorf("the questions were counted:\n%s", again)
	}
	if code, _, stderr := runs(t, "why", "--admin", r.debug, "--door", "ratelimit", "--request", "GET /"); code == 0 || !strings.Contains(stderr, "receives no request") {
		t.Errorf("a request at the rate limit service: %d, %s", code, stderr)
	}
	r.checkOperations(t, why)
	metrics := r.get(r.debug, "/metrics")
	for _, want := range []string{
		`koalagate_rule_admitted_total{name="d.k",rule="imported"} 2`, `koalagate_rule_refused_total{name="d.k",rule="imported"} 1`,
		`koalagate_rule_admitted_total{name="",rule="201"} 3`, // the limits count apart from the first rule
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in the metrics", want)
		}
	}
	page := r.get(r.debug, "/api/v1/rules")
	for _, want := range []string{`"path": "d.k"`, `"name": "small"`, `"limit": "at most 2 per year"`, `"limit": "unlimited"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in the rules in force:\n%s", want, page)
		}
	}
}

// checkOperations shows the last refusals and the heaviest identities of limits, as of rules.
func (r *replaced) checkOperations(t *testing.T, why func(...string) string) {
	t.Helper()
	if got := why("domain=d", "k=v"); !strings.Contains(got, "  limit at ratelimit\n") {
		t.Errorf("no refusal by the limit in\n%s", got)
	}
	code, top, stderr := runs(t, "top", "--admin", r.debug, "--format", "json")
	for _, want := range []string{`"name": "d.k"`, `"domain": "d"`, `"k": "#`, `"refused": 1`} {
		if code != 0 || !strings.Contains(top, want) {
			t.Errorf("top: %d, %s, no %s in\n%s", code, stderr, want, top)
		}
	}
	if _, text, _ := runs(t, "top", "--admin", r.debug); !strings.Contains(text, "limit  d.k") {
		t.Errorf("no limit in\n%s", text)
	}
}

func TestOperatorsExceptIdentitiesFromImportedLimits(t *testing.T) {
	const limits = `domain: d
descriptors:
- {key: k, rate_limit: {unit: %s, requests_per_unit: %d}}
- {key: free, rate_limit: {unlimited: true}}
- {key: watched, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}`
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", fmt.Sprintf(limits, "year", 1)))
	n := storetest.StartNode(t, goredis.Options{})
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "REDIS_URL="+n.Address)
	except := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		return runs(t, append([]string{"exception", "add", "--admin", r.debug, "--for", "1h"}, args...)...)
	}
	for _, args := range [][]string{
		{"--limit", "d.unknown", "--allow", "k=v"},
		{"--limit", "d.k", "--allow"},
		{"--limit", "d.k", "--allow", "k=v", "other=x"},
		{"--limit", "d.free", "--deny", "free=x"},
		{"--limit", "d.watched", "--deny", "watched=x"},
		{"--limit", "d.k", "--rule", "201", "--allow", "k=v"},
	} {
		if code, stdout, _ := except(args...); code == 0 {
			t.Errorf("%v: %s", args, stdout)
		}
	}
	r.calls("d", "k", "v", 200, 429)
	for _, args := range [][]string{{"--allow", "k=v"}, {"--deny", "k=w"}, {"--count=3", "k=x"}} {
		if code, stdout, stderr := except(append([]string{"--limit", "d.k"}, args...)...); code != 0 || !strings.Contains(stdout, "limit d.k  "+args[1]) {
			t.Errorf("%v: %d, %s%s", args, code, stdout, stderr)
		}
	}
	excepted := func() {
		t.Helper()
		r.calls("d", "k", "v", 200, 200)
		r.calls("d", "k", "w", 429)
	}
	excepted()
	r.calls("d", "k", "x", 200, 200, 200, 429)
	if _, got, _ := runs(t, "why", "--admin", r.debug, "--door", "ratelimit", "domain=d", "k=v"); !strings.Contains(got, "\n  exception  ") {
		t.Errorf("no exception in\n%s", got)
	}
	// They apply to the counters of the changed limit, too.
	plane.Publish(xdstest.Resource(t, "n", fmt.Sprintf(limits, "month", 2)))
	storetest.Eventually(t, func() error {
		if page := r.get(r.debug, "/rlconfig"); !strings.Contains(page, "d.k: unit=MONTH requests_per_unit=2") {
			return errors.New(page)
		}
		return nil
	})
	excepted()
	r.calls("d", "k", "y", 200, 200, 429)
}
