package page

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/koalagate/koalagate/e2e"
)

const importedLimits = `domain: edge
descriptors:
- key: route
  value: r1
  descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2, name: users}}
- {key: tier, value: "<b>gold</b>", shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}
`

// rateLimit starts an instance in the place of envoyproxy/ratelimit, with importedLimits and Redis.
func (f *fleet) rateLimit(settings ...string) *e2e.Koalagate {
	f.Helper()
	var err error
	if f.redis, err = f.stage.Redis(); err != nil {
		f.Fatal(err)
	}
	root := f.TempDir()
	if err := os.Mkdir(filepath.Join(root, "config"), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "config", "limits.yaml"), []byte(importedLimits), 0o600); err != nil {
		f.Fatal(err)
	}
	k, err := f.stage.RateLimit(binary, append([]string{"REDIS_URL=" + f.redis.URL(), "RUNTIME_ROOT=" + root, "RUNTIME_WATCH_ROOT=false", redisBudget}, settings...)...)
	if err != nil {
		f.Fatal(err)
	}
	return k
}

// askLimit asks about a user of the route r1, and returns the status.
func (f *fleet) askLimit(k *e2e.Koalagate, user string) int {
	f.Helper()
	body := `{"domain":"edge","descriptors":[{"entries":[{"key":"route","value":"r1"},{"key":"user","value":"` + user + `"}]}]}`
	answer, err := http.Post("http://"+k.HTTP+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// In the place of envoyproxy/ratelimit, an operator sees the imported limits, and which of
// them applies to a descriptor, whatever its values are.
func TestImportedLimits(t *testing.T) {
	f := newFleet(t)
	k := f.rateLimit()
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if status := f.askLimit(k, "ann"); status != want {
			t.Fatalf("call %d: %d; want %d", i, status, want)
		}
	}
	w := open(t, k.Admin, "", desk)
	w.see("limit edge.route_r1.user") // among the rules that refuse
	w.visit("#/rules")
	w.see("2 imported limits")
	w.see("edge.tier_<b>gold</b>")
	w.accessible("imported limits")
	w.visit("#/try")
	w.choose("Door", "Envoy rate limit service")
	ask := func(descriptor, sees string) {
		t.Helper()
		w.write("Descriptor", descriptor)
		w.click("Ask why")
		w.see(sees)
	}
	ask("domain=edge\nroute=r1\nuser=ann", "by limit edge.route_r1.user with HTTP 429")
	w.see("3 used of 2, 0 left, the window ends in")
	w.accessible("try a descriptor")
	w.fits("try a descriptor")
	ask("domain=edge\nuser=ann\nroute=r1", fmt.Sprintf("None applies: nothing below %q matches %q", "edge", "user=ann"))
	ask("domain=edge\ntier=<b>gold</b>", "at most 0 per year, in shadow mode")
	ask("domain=edge\nroute=r1\nuser=bob", "0 used of 2, 2 left")
}

// In the place of envoyproxy/ratelimit, an operator excepts a descriptor from an imported limit: by its
// path, as /rlconfig prints it, and by the actions of a row.
func TestExceptionOfImportedLimit(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	f := newFleet(t)
	k := f.rateLimit("KOALAGATE_ADMIN_TOKEN="+changeToken, "KOALAGATE_DECISION_LOG_PARAMS=all")
	call := func(user string) int { return f.askLimit(k, user) }
	for _, user := range []string{"ann", "bob"} {
		f.until(user+" is refused", func() bool { return call(user) == http.StatusTooManyRequests })
	}
	w := enter(t, k.Admin, "#/exceptions", desk)
	add := func(limit string) {
		t.Helper()
		w.click("Add …")
		w.write("Rule or limit", limit)
		w.write("Identity", "user=ann")
		w.confirm()
	}
	add("edge.route_r2.user")
	w.see("There is no rule and no limit “edge.route_r2.user” in force.")
	w.click("Cancel")
	config, err := k.Page("/rlconfig")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(config[strings.Index(config, "edge.route_r1.user"):], "\n")
	add(line)
	w.see("Limit edge.route_r1.user has an exception.")
	f.until("ann passes", func() bool { return call("ann") == http.StatusOK })
	w.click("End")
	f.until("ann is refused again", func() bool { return call("ann") == http.StatusTooManyRequests })
	w.click("Undo: The exception of limit edge.route_r1.user has ended.")
	f.until("ann passes again", func() bool { return call("ann") == http.StatusOK })

	w.visit("#/")
	row := `Array.from(document.querySelectorAll("main tr")).find((r) => r.innerText.includes("user=bob"))`
	w.wait(`Array.from(` + row + `?.querySelectorAll(".menu button") ?? [], (b) => b.innerText).join() === "Except for 2 h,Ban,Ban from everything"`)
	w.wait(`((b) => { b?.focus(); return !!b; })(` + row + `?.querySelector("button"))`)
	w.press(kb.Enter)
	w.click("Except for 2 h")
	w.confirm()
	w.see("Excepted from limit edge.route_r1.user.")
	f.until("bob passes", func() bool { return call("bob") == http.StatusOK })
	w.wait(row + `.innerText.includes("passes")`)
}

// In the place of envoyproxy/ratelimit, the pages of other sites count nothing and give no hits
// back, whatever a browser sends for them, and a host name that leads here reads nothing.
func TestOtherSitesAtImportedLimits(t *testing.T) {
	f := newFleet(t)
	var err error
	if f.redis, err = f.stage.Redis(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "config", "limits.yaml"), []byte(importedLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	prometheus := free.Addr().String()
	free.Close()
	k, err := f.stage.RateLimit(binary, "REDIS_URL="+f.redis.URL(), "RUNTIME_ROOT="+root, "RUNTIME_WATCH_ROOT=false", redisBudget,
		"USE_PROMETHEUS=true", "USE_STATSD=false", "PROMETHEUS_ADDR="+prometheus)
	if err != nil {
		t.Fatal(err)
	}
	call := func(want int) {
		t.Helper()
		body := `{"domain":"edge","descriptors":[{"entries":[{"key":"route","value":"r1"},{"key":"user","value":"ann"}]}]}`
		answer, err := http.Post("http://"+k.HTTP+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a call is answered with %d; want %d", answer.StatusCode, want)
		}
	}
	call(http.StatusOK)
	const script = `const to = %q, entries = [{key: "route", value: "r1"}, {key: "user", value: "ann"}];
const bodies = [{domain: "edge", descriptors: [{entries}]}, {domain: "edge", descriptors: [{entries, isNegativeHits: true, hitsAddend: "1"}]}].map((b) => JSON.stringify(b));
const ask = (o) => fetch(to, { method: "POST", ...o }).then((r) => r.type === "opaque" ? r.type : r.status, () => "failed");
Promise.all(bodies.flatMap((body) => [
  ask({ mode: "no-cors", body }), ask({ mode: "no-cors", body: new Blob([body]) }), ask({ mode: "no-cors", body: new URLSearchParams(body) }),
  ask({ body, headers: { "Content-Type": "application/json" } }), Promise.resolve(navigator.sendBeacon(to, body))])).then((all) => { document.title = all.join(" "); });`
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, "<title>other</title><script>"+script+"</script>", "http://"+k.HTTP+"/json")
	}))
	defer site.Close()
	w := open(t, k.Admin, "", desk, "status of 4", "blocked by CORS", "Cross-Origin", "a request to another host", "ERR_", "favicon")
	w.run(chromedp.Navigate(site.URL))
	w.wait(`document.title !== "other"`)
	one := "opaque opaque opaque failed true"
	if title := eval[string](w, `document.title`); title != one+" "+one {
		t.Errorf("another site: %s", title)
	}
	named := func(address, path string) string {
		_, port, _ := strings.Cut(address, ":")
		return "http://" + evil + ":" + port + path
	}
	w.run(chromedp.Navigate(named(k.HTTP, "/healthcheck")))
	w.run(chromedp.Evaluate(fmt.Sprintf(script, "/json"), nil))
	w.wait(`document.title !== ""`)
	if title := eval[string](w, `document.title`); strings.Count(title, "421") != 8 {
		t.Errorf("by another name: %s", title)
	}
	for address, paths := range map[string][]string{k.Admin: {"/rlconfig", "/stats", "/"}, prometheus: {"/metrics"}} {
		for _, path := range paths {
			w.run(chromedp.Navigate(named(address, path)))
			if text := w.text(); !strings.Contains(text, "KOALAGATE_ADMIN_HOSTS") {
				t.Errorf("%s of %s by another name: %.200s", path, address, text)
			}
		}
	}
	call(http.StatusOK)
	call(http.StatusTooManyRequests)
}
