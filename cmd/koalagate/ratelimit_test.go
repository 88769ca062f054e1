package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
)

// replaced is a running program in the place of envoyproxy/ratelimit.
type replaced struct {
	t     *testing.T
	http  string
	debug string
	uds   string
	stop  chan os.Signal
	ended chan error
}

// replace starts the program with further variables, and waits until it serves.
func replace(t *testing.T, variables ...string) *replaced {
	t.Helper()
	logs, log := io.Pipe()
	r := &replaced{t: t, uds: filepath.Join(t.TempDir(), "rl.sock"), stop: make(chan os.Signal, 1), ended: make(chan error, 1)}
	p := &program{stdout: io.Discard, stderr: log, environ: append([]string{
		"HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "GRPC_UDS=" + r.uds, "LOG_LEVEL=info", "LOG_FORMAT=json",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1", "USE_STATSD=false", "KOALAGATE_DRAIN_WAIT=0s",
	}, variables...)}
	go func() {
		err := p.rateLimitUntil(context.Background(), r.stop)
		log.Close()
		r.ended <- err
	}()
	serving := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(logs)
		for lines.Scan() {
			var line struct {
				Message string `json:"@message"`
				HTTP    string `json:"http"`
				Admin   string `json:"admin"`
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
				r.http, r.debug = line.HTTP, line.Admin
				close(serving)
			}
		}
	}()
	t.Cleanup(func() {
		r.stop <- syscall.SIGTERM
		if err := <-r.ended; err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	select {
	case <-serving:
	case err := <-r.ended:
		r.ended <- err
		t.Fatalf("the program ended with %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the program does not serve after a minute")
	}
	return r
}

// get returns the body of a page.
func (r *replaced) get(address, path string) string {
	r.t.Helper()
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(body)
}

// call returns the status of a call by /json with one entry.
func (r *replaced) call(domain, key, value string) int {
	r.t.Helper()
	return r.post(`{"domain":"` + domain + `","descriptors":[{"entries":[{"key":"` + key + `","value":"` + value + `"}]}]}`)
}

// post returns the status of a call by /json.
func (r *replaced) post(body string) int {
	r.t.Helper()
	answer, err := http.Post("http://"+r.http+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// calls checks the statuses of several calls.
func (r *replaced) calls(domain, key, value string, want ...int) {
	r.t.Helper()
	for i, status := range want {
		if got := r.call(domain, key, value); got != status {
			r.t.Errorf("call %d of %s=%s: %d; want %d", i, key, value, got, status)
		}
	}
}

func TestReplacesRateLimitWithFiles(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "config", "a.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 2}}]")
	r := replace(t, "RUNTIME_ROOT="+root, "RUNTIME_WATCH_ROOT=false")
	if got := r.get(r.http, "/healthcheck"); got != "OK" {
		t.Errorf("/healthcheck: %q", got)
	}
	r.calls("d", "k", "a", 200, 200, 429, 429)
	write("domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 5}}]")
	for range 600 {
		if strings.Contains(r.get(r.debug, "/rlconfig"), "requests_per_unit=5") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.calls("d", "k", "a", 200, 429) // all four were counted
	if got := r.get(r.debug, "/stats"); !strings.Contains(got, "ratelimit.service.rate_limit.d.k.over_limit: 3\n") {
		t.Errorf("/stats:\n%s", got)
	}
	r.health("", healthv1.HealthCheckResponse_SERVING)
	r.health("ratelimit", healthv1.HealthCheckResponse_SERVING)
}

// health checks a service of the gRPC health service.
func (r *replaced) health(name string, want healthv1.HealthCheckResponse_ServingStatus) {
	r.t.Helper()
	conn, err := grpc.NewClient("unix:"+r.uds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	got, err := healthv1.NewHealthClient(conn).Check(r.t.Context(), &healthv1.HealthCheckRequest{Service: name})
	if err != nil || got.GetStatus() != want {
		r.t.Errorf("the health of %q is %v, %v; want %v", name, got.GetStatus(), err, want)
	}
}

func TestReplacesRateLimitWithAControlPlane(t *testing.T) {
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", "domain: d\ndescriptors: [{key: k, value: v, rate_limit: {unit: year, requests_per_unit: 1}}]"))
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address)
	r.calls("d", "k", "v", 200, 429)
	r.calls("d", "k", "w", 200, 200)
}

func TestChargesInDescriptorsAreASetting(t *testing.T) {
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 9}}]"))
	const charge = `{"domain":"d","descriptors":[{"hitsAddend":"20","entries":[{"key":"k","value":"v"},{"key":"koala.op","value":"charge"}]}]}`
	for variable, want := range map[string]int{"KOALAGATE_RATELIMIT_SETTLE=true": 429, "KOALAGATE_RATELIMIT_SETTLE=false": 200} {
		r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, variable)
		if got := r.post(charge); got != 200 {
			t.Errorf("%s: a charge is answered with %d; want 200", variable, got)
		}
		r.calls("d", "k", "v", want)
	}
}

func TestImportedLimitsAreInTheDecisionLogAndTheMetrics(t *testing.T) {
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", `domain: d
descriptors:
- {key: k, value: "a\"b", rate_limit: {unit: year, requests_per_unit: 1}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}`))
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address,
		"KOALAGATE_DECISION_LOG="+log, "KOALAGATE_DECISION_LOG_PARAMS=all")
	r.calls("d", "k", `a\"b`, 200, 429)
	r.calls("d", "shadow", "s", 200)
	want := []string{`"k":"a\"b"},"hits":1,"answer":{"verdict":"deny","return":0,"name":"d.k_a\"b","limit":1,"remaining":0,`, `"shadow":[{"return":0,"name":"d.shadow","verdict":"deny"}]`}
	var text []byte
	for range 600 {
		text, _ = os.ReadFile(log)
		if strings.Count(string(text), "\n") == 3 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, part := range want {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is missing in\n%s", part, text)
		}
	}
	page := r.get(r.debug, "/metrics")
	for _, line := range []string{`koalagate_decisions_total{door="ratelimit",verdict="allow"} 2`, `koalagate_decisions_total{door="ratelimit",verdict="deny"} 1`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, page)
		}
	}
}

// With HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED a program without limits is neither healthy nor ready.
func TestReplacementWaitsForItsFirstLimits(t *testing.T) {
	plane := xdstest.Start(t, nil)
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address,
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")
	const reason = "no limits are loaded, and HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED requires some"
	if health, ready := r.get(r.http, "/healthcheck"), r.get(r.debug, "/readyz"); health == "OK" || !strings.Contains(ready, `"ready": false`) || !strings.Contains(ready, reason) {
		t.Errorf("without limits: /healthcheck %q, /readyz %s", health, ready)
	}
	plane.Answer(plane.Publish(xdstest.Resource(t, "n", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 2}}]")))
	if health, ready := r.get(r.http, "/healthcheck"), r.get(r.debug, "/readyz"); health != "OK" || !strings.Contains(ready, `"ready": true`) {
		t.Errorf("with limits: /healthcheck %q, /readyz %s", health, ready)
	}
}

// A control plane that sends a version, takes it back and dies leaves the limits that it had last;
// when it is back, its versions begin at 1 again, and they apply.
func TestControlPlaneTakesAVersionBackAndDies(t *testing.T) {
	limit := func(requests int) *anypb.Any {
		return xdstest.Resource(t, "default/eg/http", fmt.Sprintf("domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: %d}}]", requests))
	}
	plane := xdstest.Start(t, nil)
	plane.PublishAs("1", limit(2))
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address,
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=10ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=50ms")
	has := func(when, want string) {
		t.Helper()
		got := ""
		for range 600 {
			if got = r.get(r.debug, "/rlconfig"); strings.Contains(got, want) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("%s: the limits are %q; want %s", when, got, want)
	}
	r.calls("d", "k", "ann", 200, 200, 429)
	plane.PublishAs("2", limit(9))
	has("a second version", "requests_per_unit=9")
	r.calls("d", "k", "ann", 200) // the hits so far stay counted: the fourth of nine
	plane.PublishAs("3", limit(2))
	has("taken back", "requests_per_unit=2,")
	plane.Pause()
	r.calls("d", "k", "ann", 429)
	r.calls("d", "k", "bob", 200, 200, 429)
	if health, ready := r.get(r.http, "/healthcheck"), r.get(r.debug, "/readyz"); health != "OK" || !strings.Contains(ready, `"ready": true`) {
		t.Errorf("without the control plane: /healthcheck %q, /readyz %s", health, ready)
	}
	plane.PublishAs("1", limit(7))
	plane.Resume()
	has("the control plane is back", "requests_per_unit=7")
	plane.PublishAs("2") // takes everything back
	for range 600 {
		if r.get(r.debug, "/rlconfig") == "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.calls("d", "k", "bob", 200)
}

// exchange is what a control plane sent on each of its streams: limits, changed limits, and after
// a restart other limits with versions that begin again.
func exchange(t *testing.T, name string) (streams [][]*discoveryv3.DiscoveryResponse) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var raw [][]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	for _, responses := range raw {
		var stream []*discoveryv3.DiscoveryResponse
		for _, text := range responses {
			response := new(discoveryv3.DiscoveryResponse)
			if err := protojson.Unmarshal(text, response); err != nil {
				t.Fatal(err)
			}
			stream = append(stream, response)
		}
		streams = append(streams, stream)
	}
	return streams
}

// e2e/envoygateway recorded Envoy Gateway 1.9.1. The exchange with Agent Router 1.1 was recorded by
// hand, from its translator and its server of quotas, built from the sources, with the policies
// agent-router-1.yaml to -3.yaml.
func TestExchangesWithControlPlanes(t *testing.T) {
	t.Run("envoy-gateway", func(t *testing.T) { testExchange(t, "envoy-gateway", "envoy-ratelimit") })
	t.Run("agent-router", func(t *testing.T) { testExchange(t, "agent-router", "envoy-ai-gateway-ratelimit") })
}

func testExchange(t *testing.T, name, node string) {
	plane := xdstest.Start(t, nil)
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "CONFIG_GRPC_XDS_NODE_ID="+node,
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=10ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=50ms")
	var got strings.Builder
	sent := make(map[string]int)
	for i, stream := range exchange(t, name) {
		for n, response := range stream {
			restarts := i > 0 && n == 0
			if restarts {
				plane.Pause()
			}
			version := response.GetVersionInfo()
			plane.PublishAs(version, response.GetResources()...)
			if restarts {
				plane.Resume()
			}
			sent[version]++
			if answers := plane.Answers(version, sent[version]); answers[len(answers)-1].GetErrorDetail() != nil {
				t.Errorf("version %s is refused: %v", version, answers[len(answers)-1].GetErrorDetail())
			}
			fmt.Fprintf(&got, "stream %d, version %s\n%s", i+1, version, r.get(r.debug, "/rlconfig"))
		}
	}
	want, err := os.ReadFile("testdata/" + name + ".golden")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; the limits were\n%s\nwant\n%s", err, got.String(), want)
	}
}

// Web pages neither count nor give hits back at the running program, and read nothing there;
// curl with its default content type counts.
func TestWebPagesAreKeptFromTheReplacement(t *testing.T) {
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 2}}]"))
	r := replace(t, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address,
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "KOALAGATE_TRUSTED_PROXIES=127.0.0.1")
	ask := func(address, path, body, host string, headers ...string) int {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		ask, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		ask.Host = host
		for i := 0; i < len(headers); i += 2 {
			ask.Header.Set(headers[i], headers[i+1])
		}
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	const (
		form  = "application/x-www-form-urlencoded"
		count = `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"a"}]}]}`
		back  = `{"domain":"d","descriptors":[{"isNegativeHits":true,"hitsAddend":"1","entries":[{"key":"k","value":"a"}]}]}`
	)
	r.calls("d", "k", "a", 200)
	for _, body := range []string{count, back} {
		for _, c := range []struct {
			status  int
			host    string
			headers []string
		}{
			{403, r.http, []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}},
			{403, r.http, []string{"Content-Type", form, "Origin", "null"}},
			{421, "evil.example", []string{"Content-Type", "application/json", "Origin", "http://evil.example"}},
			{415, r.http, []string{"Content-Type", "text/plain"}},
		} {
			if got := ask(r.http, "/json", body, c.host, c.headers...); got != c.status {
				t.Errorf("%s with %q and the host %s: %d; want %d", body, c.headers, c.host, got, c.status)
			}
		}
	}
	if got := ask(r.http, "/json", count, "", "Content-Type", form); got != 200 {
		t.Errorf("curl: %d; want 200, the second of two", got)
	}
	r.calls("d", "k", "a", 429)
	for _, path := range []string{"/rlconfig", "/stats", "/"} {
		if got := ask(r.debug, path, "", "evil.example"); got != 421 {
			t.Errorf("%s by another name: %d; want 421", path, got)
		}
	}
	if got := ask(r.http, "/healthcheck", "", "balancer.example"); got != 200 {
		t.Errorf("/healthcheck: %d; want 200", got)
	}
	page := r.get(r.debug, "/metrics")
	for _, line := range []string{`{address="http",reason="web_page"} 4`, `{address="http",reason="host"} 2`, `{address="http",reason="content_type"} 2`, `{address="admin",reason="host"} 3`} {
		if !strings.Contains(page, "koalagate_refused_peers_total"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, page)
		}
	}
}

func TestInvalidVariableEndsTheProgram(t *testing.T) {
	p := &program{stdout: io.Discard, stderr: io.Discard, environ: []string{"GRPC_PORT=many"}}
	if err := p.rateLimit(t.Context()); err == nil || !strings.Contains(err.Error(), `GRPC_PORT is "many"`) {
		t.Errorf("got %v", err)
	}
}
