package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// probe runs `koalagate probe`, checks its exit status and that its output contains
// the texts, and returns the output.
func probe(t *testing.T, code int, want []string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"probe"}, args...)...).CombinedOutput()
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("exit status %d, want %d", got, code)
	}
	for _, text := range want {
		if !strings.Contains(string(out), text) {
			t.Errorf("the output lacks %q", text)
		}
	}
	if t.Failed() {
		t.Logf("koalagate probe %s\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// testFact runs the test of a fact of docs/gateways/facts-http.md.
func testFact(t *testing.T, number int, test func(*testing.T)) {
	t.Helper()
	t.Run(fmt.Sprintf("GW-%d", number), test)
}

// comments returns the probe's arguments for requests of a user, five of which pass.
func comments(g *e2e.Gateway, user string) []string {
	return []string{g.URL + "/api/comments", "--method", "POST", "--header", "X-User-Id: " + user, "--requests", "20"}
}

// The probe detects common configuration errors of nginx.
func TestProbeOfNginx(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", doorRules))
	app := h.app()
	with := func(pairs ...[2]string) *e2e.Gateway {
		return nginxWith("nginx/nginx.conf", pairs...)(h, app, k.HTTP)
	}

	t.Run("the sample", func(t *testing.T) {
		probe(t, 0, []string{
			"ok    refusal      request 6 is refused with 429, by rule 201\n",
			`ok    headers      the quota is "r201";q=5;w=3600, left: "r201";r=0;t=`,
			"ok    body         a problem document of status 429\n",
			"ok    connections  kept across refusals",
			"forged requests are refused\n",
			"note  choosing     with another X-User-Id the request passes",
			"no faults\n",
		}, comments(with(), "sample")...)
	})
	t.Run("a user named by the gateway", func(t *testing.T) {
		g := with([2]string{"    default  \"\";\n", "    default named;\n"})
		args := append(comments(g, "chosen"), "--header", "X-Trace: 1")
		if out := probe(t, 0, []string{"no faults\n"}, args...); strings.Contains(out, "choosing") {
			t.Errorf("it notes headers that clients cannot set, or that no rule uses:\n%s", out)
		}
	})
	t.Run("a captcha", func(t *testing.T) {
		probe(t, 0, []string{"request 1 is refused with 403, by rule 102"}, with().URL+"/api/captcha")
	})
	testFact(t, 112, func(t *testing.T) { // auth_request with arguments lets every request through
		g := with([2]string{"    auth_request /_koala;", "    auth_request /_koala?a=b;"})
		probe(t, 1, []string{"none of 20 requests was refused, and no response reports a quota: the gateway is silently open", "`auth_request /x?argument`"}, comments(g, "arguments")...)
	})
	testFact(t, 113, func(t *testing.T) { // auth_request turns a 429 into a 500
		g := with([2]string{"/v1/auth-request;", "/v1/auth-request?_deny=native;"})
		probe(t, 1, []string{"after requests that passed, one is answered with 500 Internal Server Error, which is not a refusal", "remove `_deny=native`"}, comments(g, "native")...)
	})
	testFact(t, 114, func(t *testing.T) { // a check that announces a body and never sends it
		g := with([2]string{"      proxy_set_header Content-Length \"\";\n", ""})
		start := time.Now()
		for range 3 {
			if r := sendBody(t, g.URL+"/api/upload", strings.NewReader(strings.Repeat("x", 10_000))); r.status != 200 {
				t.Errorf("%d; want 200", r.status)
			}
			if r := sendBody(t, g.URL+"/api/upload", strings.NewReader(strings.Repeat("x", 10_000)), "X-User-Id: blocked"); r.status != 403 {
				t.Errorf("blocked: %d; want 403", r.status)
			}
		}
		// If it waited, each check would wait for the read timeout of 10 s.
		if took := time.Since(start); took > 50*time.Second {
			t.Errorf("six uploads took %v; koalagate waited for a body", took)
		}
	})
	testFact(t, 115, func(t *testing.T) { // a request is checked again after an internal redirect
		if err := os.MkdirAll(filepath.Join(h.dir, "pages"), 0o700); err != nil {
			t.Fatal(err)
		}
		h.file("pages/index.html", "a page")
		g := with([2]string{"    # Not checked.\n", `
    location /pages/ { root ` + h.dir + `; index index.html; }
    location /once/  { alias ` + h.dir + `/pages/; try_files $uri $uri/index.html =404; }
    location /tried/ { root ` + h.dir + `; try_files $uri /pages/index.html; }
    location /error/ { root ` + h.dir + `; error_page 404 =200 /pages/index.html; error_page 401 403 = @koala_refused; }
`})
		for path, want := range map[string]string{"/pages/": "2", "/tried/x": "2", "/error/x": "2", "/pages/index.html": "1", "/once/index.html": "1", "/once/": "1"} {
			output := "each request takes " + want + " of its quota"
			if want == "1" {
				output = "request 51 is refused"
			}
			probe(t, 0, []string{output, "no faults"}, g.URL+path, "--header", "X-User-Id: pages "+path)
		}
	})
	t.Run("without error_page", func(t *testing.T) {
		g := with([2]string{"    error_page 401 403 = @koala_refused;\n", ""})
		probe(t, 1, []string{"one is answered with 403 Forbidden, without koalagate's status", "`error_page 401 403 = @refused`"}, comments(g, "naked")...)
	})
	t.Run("headers dropped", func(t *testing.T) {
		g := with([2]string{"      add_header Retry-After         $koala_retry    always;\n", ""})
		probe(t, 1, []string{"FAULT headers      the refusal has no Retry-After"}, comments(g, "headers")...)
	})
	t.Run("body dropped", func(t *testing.T) {
		g := with([2]string{"{ return 429 $koala_body; }", "{ return 429; }"})
		probe(t, 1, []string{"FAULT body         the body is an HTML page", "FAULT headers      Content-Type occurs 2 times"}, comments(g, "body")...)
	})
	t.Run("connections that end", func(t *testing.T) {
		g := with([2]string{"    # Not checked.\n", "    keepalive_timeout 0;\n"})
		probe(t, 1, []string{"FAULT connections  8 refused requests used 8 connections", "Check whether keepalive is disabled"}, comments(g, "closing")...)
	})
	t.Run("connections that end occasionally", func(t *testing.T) {
		g := with([2]string{"    # Not checked.\n", "    keepalive_requests 4;\n"})
		probe(t, 0, []string{"note  connections  2 connections ended during 8 refused requests; most were kept", "no faults"}, comments(g, "some")...)
	})
	t.Run("a status that is not in the list", func(t *testing.T) {
		g := with([2]string{"      if ($koala_status = 429) { return 429 $koala_body; }\n", ""})
		probe(t, 1, []string{"the problem document has status 429 Too Many Requests, but the response has 403 Forbidden"}, comments(g, "status")...)
	})
	t.Run("a parameter that is not overwritten", func(t *testing.T) {
		g := with([2]string{"      proxy_set_header X-Koala-Param-Act $koala_act;\n", ""})
		probe(t, 1, []string{"a request over the limit passes with X-Koala-Param-act: koalagate-probe"}, comments(g, "param")...)
	})
	t.Run("an address that clients choose", func(t *testing.T) {
		g := with([2]string{"X-Real-IP         $remote_addr;", "X-Real-IP         $chosen;"},
			[2]string{"  log_format koala ", `  map $http_x_forwarded_for $chosen { "" $remote_addr; default $http_x_forwarded_for; }` + "\n  log_format koala "})
		probe(t, 1, []string{"a request over the limit passes with X-Forwarded-For: 198.51.100.201", "Let the gateway overwrite"}, g.URL+"/by-address", "--requests", "20")
	})
	t.Run("a limit with more room", func(t *testing.T) {
		probe(t, 1, []string{`none of 3 requests was refused, and the quota is "r201";q=5;w=3600`, "raise --requests"}, append(comments(with(), "room"), "--requests", "3")...)
	})
	t.Run("koalagate is down", func(t *testing.T) {
		g := with()
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		probe(t, 1, []string{"the gateway is silently open", "it fails open, and cannot reach koalagate"}, comments(g, "gone")...)
	})
}

// A check from an untrusted peer is refused, without any information on rules.
func TestProbeOfAnUntrustedGateway(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := must(h.stage.Koalagate(binary, append([]string{"KOALAGATE_TRUSTED_PROXIES=203.0.113.0/24"}, raceSettings...), "--rules", h.file("rules.conf", doorRules)))(t)
	probe(t, 1, []string{"the first request is answered with 403 Forbidden, without koalagate's status", "trusted_proxies"}, comments(h.nginx(h.app(), k), "stranger")...)
}
