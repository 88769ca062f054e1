package nginx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The probe detects common configuration errors of nginx.
func TestProbeOfNginx(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", rig.DoorRules))
	app := h.App()
	with := func(pairs ...[2]string) *e2e.Gateway {
		return rig.NginxWith("nginx/nginx.conf", pairs...)(h, app, k.HTTP)
	}

	t.Run("the sample", func(t *testing.T) {
		rig.Probe(t, 0, []string{
			"ok    refusal      request 6 is refused with 429, by rule 201\n",
			`ok    headers      the quota is "r201";q=5;w=3600, left: "r201";r=0;t=`,
			"ok    body         a problem document of status 429\n",
			"ok    connections  kept across refusals",
			"forged requests are refused\n",
			"note  choosing     with another X-User-Id the request passes",
			"no faults\n",
		}, rig.Comments(with(), "sample")...)
	})
	t.Run("a user named by the gateway", func(t *testing.T) {
		g := with([2]string{"    default  \"\";\n", "    default named;\n"})
		args := append(rig.Comments(g, "chosen"), "--header", "X-Trace: 1")
		if out := rig.Probe(t, 0, []string{"no faults\n"}, args...); strings.Contains(out, "choosing") {
			t.Errorf("it notes headers that clients cannot set, or that no rule uses:\n%s", out)
		}
	})
	t.Run("a captcha", func(t *testing.T) {
		rig.Probe(t, 0, []string{"request 1 is refused with 403, by rule 102"}, with().URL+"/api/captcha")
	})
	rig.TestFact(t, 112, func(t *testing.T) { // auth_request with arguments lets every request through
		g := with([2]string{"    auth_request /_koala;", "    auth_request /_koala?a=b;"})
		rig.Probe(t, 1, []string{"none of 20 requests was refused, and no response reports a quota: the gateway is silently open", "`auth_request /x?argument`"}, rig.Comments(g, "arguments")...)
	})
	rig.TestFact(t, 113, func(t *testing.T) { // auth_request turns a 429 into a 500
		g := with([2]string{"/v1/auth-request;", "/v1/auth-request?_deny=native;"})
		rig.Probe(t, 1, []string{"after requests that passed, one is answered with 500 Internal Server Error, which is not a refusal", "remove `_deny=native`"}, rig.Comments(g, "native")...)
	})
	rig.TestFact(t, 114, func(t *testing.T) { // a check that announces a body and never sends it
		g := with([2]string{"      proxy_set_header Content-Length \"\";\n", ""})
		start := time.Now()
		for range 3 {
			if r := rig.SendBody(t, g.URL+"/api/upload", strings.NewReader(strings.Repeat("x", 10_000))); r.Status != 200 {
				t.Errorf("%d; want 200", r.Status)
			}
			if r := rig.SendBody(t, g.URL+"/api/upload", strings.NewReader(strings.Repeat("x", 10_000)), "X-User-Id: blocked"); r.Status != 403 {
				t.Errorf("blocked: %d; want 403", r.Status)
			}
		}
		// If it waited, each check would wait for the read timeout of 10 s.
		if took := time.Since(start); took > 50*time.Second {
			t.Errorf("six uploads took %v; koalagate waited for a body", took)
		}
	})
	rig.TestFact(t, 115, func(t *testing.T) { // a request is checked again after an internal redirect
		if err := os.MkdirAll(filepath.Join(h.Dir, "pages"), 0o700); err != nil {
			t.Fatal(err)
		}
		h.File("pages/index.html", "a page")
		g := with([2]string{"    # Not checked.\n", `
    location /pages/ { root ` + h.Dir + `; index index.html; }
    location /once/  { alias ` + h.Dir + `/pages/; try_files $uri $uri/index.html =404; }
    location /tried/ { root ` + h.Dir + `; try_files $uri /pages/index.html; }
    location /error/ { root ` + h.Dir + `; error_page 404 =200 /pages/index.html; error_page 401 403 = @koala_refused; }
`})
		for path, want := range map[string]string{"/pages/": "2", "/tried/x": "2", "/error/x": "2", "/pages/index.html": "1", "/once/index.html": "1", "/once/": "1"} {
			output := "each request takes " + want + " of its quota"
			if want == "1" {
				output = "request 51 is refused"
			}
			rig.Probe(t, 0, []string{output, "no faults"}, g.URL+path, "--header", "X-User-Id: pages "+path)
		}
	})
	t.Run("without error_page", func(t *testing.T) {
		g := with([2]string{"    error_page 401 403 = @koala_refused;\n", ""})
		rig.Probe(t, 1, []string{"one is answered with 403 Forbidden, without koalagate's status", "`error_page 401 403 = @refused`"}, rig.Comments(g, "naked")...)
	})
	t.Run("headers dropped", func(t *testing.T) {
		g := with([2]string{"      add_header Retry-After         $koala_retry    always;\n", ""})
		rig.Probe(t, 1, []string{"FAULT headers      the refusal has no Retry-After"}, rig.Comments(g, "headers")...)
	})
	t.Run("body dropped", func(t *testing.T) {
		g := with([2]string{"{ return 429 $koala_body; }", "{ return 429; }"})
		rig.Probe(t, 1, []string{"FAULT body         the body is an HTML page", "FAULT headers      Content-Type occurs 2 times"}, rig.Comments(g, "body")...)
	})
	t.Run("connections that end", func(t *testing.T) {
		g := with([2]string{"    # Not checked.\n", "    keepalive_timeout 0;\n"})
		rig.Probe(t, 1, []string{"FAULT connections  8 refused requests used 8 connections", "Check whether keepalive is disabled"}, rig.Comments(g, "closing")...)
	})
	t.Run("connections that end occasionally", func(t *testing.T) {
		g := with([2]string{"    # Not checked.\n", "    keepalive_requests 4;\n"})
		rig.Probe(t, 0, []string{"note  connections  2 connections ended during 8 refused requests; most were kept", "no faults"}, rig.Comments(g, "some")...)
	})
	t.Run("a status that is not in the list", func(t *testing.T) {
		g := with([2]string{"      if ($koala_status = 429) { return 429 $koala_body; }\n", ""})
		rig.Probe(t, 1, []string{"the problem document has status 429 Too Many Requests, but the response has 403 Forbidden"}, rig.Comments(g, "status")...)
	})
	t.Run("a parameter that is not overwritten", func(t *testing.T) {
		g := with([2]string{"      proxy_set_header X-Koala-Param-Act $koala_act;\n", ""})
		rig.Probe(t, 1, []string{"a request over the limit passes with X-Koala-Param-act: koalagate-probe"}, rig.Comments(g, "param")...)
	})
	t.Run("an address that clients choose", func(t *testing.T) {
		g := with([2]string{"X-Real-IP         $remote_addr;", "X-Real-IP         $chosen;"},
			[2]string{"  log_format koala ", `  map $http_x_forwarded_for $chosen { "" $remote_addr; default $http_x_forwarded_for; }` + "\n  log_format koala "})
		rig.Probe(t, 1, []string{"a request over the limit passes with X-Forwarded-For: 198.51.100.201", "Let the gateway overwrite"}, g.URL+"/by-address", "--requests", "20")
	})
	t.Run("a limit with more room", func(t *testing.T) {
		rig.Probe(t, 1, []string{`none of 3 requests was refused, and the quota is "r201";q=5;w=3600`, "raise --requests"}, append(rig.Comments(with(), "room"), "--requests", "3")...)
	})
	t.Run("koalagate is down", func(t *testing.T) {
		g := with()
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		rig.Probe(t, 1, []string{"the gateway is silently open", "it fails open, and cannot reach koalagate"}, rig.Comments(g, "gone")...)
	})
}

// A check from an untrusted peer is refused, without any information on rules.
func TestProbeOfAnUntrustedGateway(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := rig.Must(h.Stage.Koalagate(rig.Binary, append([]string{"KOALAGATE_TRUSTED_PROXIES=203.0.113.0/24"}, rig.RaceSettings...), "--rules", h.File("rules.conf", rig.DoorRules)))(t)
	rig.Probe(t, 1, []string{"the first request is answered with 403 Forbidden, without koalagate's status", "trusted_proxies"}, rig.Comments(h.Nginx(h.App(), k), "stranger")...)
}
