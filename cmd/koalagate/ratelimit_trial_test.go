package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// limitsOf are limits of a year by k and by peer.
const limitsOf = `domain: d
descriptors:
- {key: k, rate_limit: {unit: year, requests_per_unit: 2}}
- {key: peer, rate_limit: {unit: year, requests_per_unit: 1}}
`

// onTrial is a program with a trial, which has decided a number of calls.
type onTrial struct {
	*replaced
	tried int
}

// tryLimits starts a program whose limits come from a file, and other files on trial.
func tryLimits(t *testing.T, tried map[string]string, variables ...string) (*onTrial, string) {
	t.Helper()
	folder := t.TempDir()
	tried["config/a.yaml"] = limitsOf
	var paths []string
	for name, text := range tried {
		writeAt(t, filepath.Join(folder, name), text)
		if !strings.Contains(name, "/") {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	redis := storetest.StartNode(t, goredis.Options{})
	r := replace(t, append([]string{
		"REDIS_URL=" + redis.Address, "KOALAGATE_REDIS_BUDGET=10s", "RUNTIME_ROOT=" + folder, "RUNTIME_WATCH_ROOT=false",
		"KOALAGATE_TRIAL=" + strings.Join(paths, ","), "KOALAGATE_DECISION_LOG_PARAMS=all",
	}, variables...)...)
	r.awaitRedis()
	return &onTrial{replaced: r}, folder
}

// writeAt replaces a file.
func writeAt(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// awaitTrial waits until the report of the trial has all these texts.
func (r *onTrial) awaitTrial(want ...string) {
	r.t.Helper()
	storetest.Eventually(r.t, func() error {
		code, stdout, stderr := runs(r.t, "trial", "--admin", r.debug)
		for _, text := range want {
			if code != 0 || !strings.Contains(stdout, text) {
				return &missing{text, stdout + stderr}
			}
		}
		return nil
	})
}

// callEach checks the statuses of several calls, each of which the trial decides before the next.
func (r *onTrial) callEach(entry string, want ...int) {
	r.t.Helper()
	key, value, _ := strings.Cut(entry, "=")
	for _, status := range want {
		r.calls("d", key, value, status)
		r.tried++
		r.awaitTrial("\n" + printable.Count(r.tried, "request") + ", 0 left out\n")
	}
}

// missing is a text that a report lacks.
type missing struct{ want, got string }

func (m *missing) Error() string { return "no " + m.want + " in\n" + m.got }

// Limits from files decide, while changed ones are on trial.
func TestLimitsOnTrial(t *testing.T) {
	next := strings.ReplaceAll(limitsOf, "requests_per_unit: 2", "requests_per_unit: 1")
	next = strings.ReplaceAll(next, "peer, rate_limit: {unit: year, requests_per_unit: 1}", "peer, rate_limit: {unit: year, requests_per_unit: 9}")
	r, folder := tryLimits(t, map[string]string{"next.yaml": next})
	r.callEach("k=ann", 200, 200, 429)
	r.callEach("peer=bob", 200, 429)
	r.callEach("other=x", 200) // meets no limit
	r.awaitTrial("6 requests, 0 left out\n", "refused: 2 in force, 2 on trial\n", "newly refused: 1 (17 %), newly allowed: 1 (17 %)\n",
		"limit d.k ", "domain=d k=ann\n", "limit d.peer", "domain=d peer=bob\n")
	report := r.get(r.debug, "/api/v1/trial")
	for _, want := range []string{
		`"rule": 0,`, `"name": "d.k",`, `"newly_refused": 1,`, `"identity": "domain=d k=ann",`, `"name": "d.peer",`, `"identity": "domain=d peer=bob",`,
	} {
		if !strings.Contains(report, want) {
			t.Errorf("no %s in\n%s", want, report)
		}
	}
	if page := r.get(r.debug, "/rlconfig"); !strings.Contains(page, "d.k:") || !strings.Contains(page, "requests_per_unit=2") {
		t.Errorf("the limits in force:\n%s", page)
	}
	if stats := r.get(r.debug, "/stats"); !strings.Contains(stats, "ratelimit.service.rate_limit.d.k.total_hits: 3\n") {
		t.Errorf("the statistics count the trial:\n%s", stats)
	}

	// A faulty file changes nothing; another one begins a new trial, whose counters begin as copies.
	writeAt(t, filepath.Join(folder, "next.yaml"), "domain: d\ndescriptors: [{key: k, rate_limit: {unit: eon}}]")
	r.callEach("k=ann", 429)
	r.awaitTrial(": running\n", "7 requests")
	writeAt(t, filepath.Join(folder, "next.yaml"), strings.ReplaceAll(limitsOf, "requests_per_unit: 2", "requests_per_unit: 5"))
	r.awaitTrial("\n0 requests")
	r.tried = 0
	r.callEach("k=ann", 429, 429) // the fifth and the sixth hit
	r.awaitTrial("2 requests", "refused: 2 in force, 1 on trial\n", "newly refused: 0 (0 %), newly allowed: 1 (50 %)\n")
}

// A rule file and a file of limits are on trial together.
func TestRulesAndLimitsOnTrial(t *testing.T) {
	const rules = "[rules]\nrule : [count] [k=+] [time=86400; count=%; result=2; return=201; name=days]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	file := strings.ReplaceAll(rules, "count=%; ", "count=%] [")
	tried := strings.ReplaceAll(file, "%", "1")
	t.Run("without rules in force", func(t *testing.T) {
		r, _ := tryLimits(t, map[string]string{"next.conf": tried, "next.yml": strings.ReplaceAll(limitsOf, "1}", "0}")})
		r.callEach("k=ann", 200, 200, 429)
		r.callEach("peer=bob", 200)
		r.awaitTrial("4 requests", "newly refused: 2 (50 %)", "201 days", "k=ann\n", "limit d.peer", "domain=d peer=bob\n")
	})
	t.Run("beside rules", func(t *testing.T) {
		inForce := filepath.Join(t.TempDir(), "rules.conf")
		writeAt(t, inForce, strings.ReplaceAll(file, "%", "9"))
		r, _ := tryLimits(t, map[string]string{"next.conf": tried, "next.yml": strings.ReplaceAll(limitsOf, "1}", "0}")}, "KOALAGATE_RULES="+inForce)
		r.callEach("k=ann", 200, 200, 429)
		r.callEach("peer=bob", 200)
		r.awaitTrial("4 requests", "newly refused: 2 (50 %)", "201 days", "k=ann\n", "limit d.peer", "domain=d peer=bob\n")
	})
}

func TestFaultyFilesOnTrialEndTheProgram(t *testing.T) {
	folder := t.TempDir()
	faulty, good := filepath.Join(folder, "faulty.yaml"), filepath.Join(folder, "next.yaml")
	writeAt(t, faulty, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: eon}}]")
	writeAt(t, good, limitsOf)
	files := []string{"RUNTIME_ROOT=" + folder, "RUNTIME_WATCH_ROOT=false", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1", "HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "GRPC_UDS=" + filepath.Join(folder, "rl.sock")}
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"broken": {append(files, "KOALAGATE_TRIAL="+faulty), "the limits on trial have errors: faulty.yaml: "},
		"absent": {append(files, "KOALAGATE_TRIAL="+folder+"/none.yml"), "the limits on trial have errors: none.yml: "},
		"control plane": {
			[]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "KOALAGATE_TRIAL=" + good},
			"trial (environment KOALAGATE_TRIAL): " + good + " has limits, but the limits in force come from a control plane (CONFIG_TYPE is GRPC_XDS_SOTW); want rule files, or CONFIG_TYPE=FILE for limits from files",
		},
	} {
		p := &program{stdout: io.Discard, stderr: io.Discard, environ: c.environ}
		if err := p.rateLimitUntil(context.Background(), make(chan os.Signal)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}
