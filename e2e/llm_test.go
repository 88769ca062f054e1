package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// model is an application that answers as a language model does: with the tokens that it
// used, at the end of a JSON document or of an event stream. It counts the requests that
// it works on at the same time.
type model struct {
	address string
	tokens  int
	// held is closed when requests may be answered; nil holds none.
	held atomic.Pointer[chan struct{}]

	reached, running, most atomic.Int64
}

// startModel starts a model that uses 600 tokens a request.
func startModel(t *testing.T) *model {
	t.Helper()
	m := &model{tokens: 600}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.address = strings.TrimPrefix(server.URL, "http://")
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.reached.Add(1)
	running := m.running.Add(1)
	defer m.running.Add(-1)
	for most := m.most.Load(); running > most && !m.most.CompareAndSwap(most, running); most = m.most.Load() {
	}
	if held := m.held.Load(); held != nil {
		select {
		case <-*held:
		case <-r.Context().Done():
			return
		}
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":100,"completion_tokens":%d,"total_tokens":%d}`, m.tokens-100, m.tokens)
	if r.URL.Query().Has("stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}],\"usage\":null}\n\n")
		fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"choices":[{"message":{"content":"hello"}}],%s}`, usage)
}

// hold holds the answers of requests from now on until release is called.
func (m *model) hold() (release func()) {
	held := make(chan struct{})
	m.held.Store(&held)
	return sync.OnceFunc(func() { close(held) })
}

// llmEnvoy starts the sample for language models.
func llmEnvoy(h *fixture, m *model, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	const endpoint = "        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } }\n"
	var endpoints strings.Builder
	for _, k := range instances {
		fmt.Fprintf(&endpoints, endpoint, port(k.GRPC))
	}
	return must(h.stage.EnvoySample("envoy/envoy-llm.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "},
		[2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + port(m.address) + " "},
		[2]string{fmt.Sprintf(endpoint, "9191"), endpoints.String()}))(h.T)
}

// spent waits until the counter of a rule reaches a value: Envoy reports the end of a
// response after the client has it.
func spent(t *testing.T, k *e2e.Koalagate, query string, want int) {
	t.Helper()
	counter := fmt.Sprintf(`"cache_val":%d}`, want)
	waitUntil(t, query+" is "+counter, func() bool {
		r, err := trySend("GET", "http://"+k.HTTP+"/rule/value?"+query)
		return err == nil && strings.Contains(strings.ReplaceAll(r.body, " ", ""), counter)
	})
}

// Envoy's pattern for budgets: a look before the request, and a charge of what the
// response used.
func TestBudgetOfTokensCloses(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	avoidMidnight(t)
	m := startModel(t)
	instances := h.pair(h.sampleRules("examples/token-budget.conf", [2]string{"count=100k;", "count=1000;"}))
	g := llmEnvoy(h, m, instances...)
	ask := func(want int, query, user string) {
		t.Helper()
		r := wantStatus(t, want, "POST", g.URL+"/v1/chat/completions"+query, "X-User-Id: "+user)
		if want == http.StatusOK && !strings.Contains(r.body, `"total_tokens":600`) {
			t.Errorf("%q is not the whole answer", r.body)
		}
	}
	const counter = "rule_no=201&domain=llm&budget=tokens&user="
	ask(200, "", "ann")
	spent(t, instances[0], counter+"ann", 600)
	ask(200, "?stream", "ann")
	spent(t, instances[1], counter+"ann", 1200)
	ask(429, "", "ann")
	ask(429, "?stream", "ann")
	ask(200, "?stream", "bob")
	spent(t, instances[0], counter+"bob", 600)
	if got := m.reached.Load(); got != 3 {
		t.Errorf("%d requests reached the model; want 3", got)
	}
	spent(t, instances[0], counter+"ann", 1200) // refused requests have no usage
}

// Envoy's pattern for requests at the same time: +1 before and -1 at the end. Envoy
// reports the end of refused requests, too, which an overdraft rule has recorded.
func TestRefundsAtTheEndLimitConcurrency(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	m := startModel(t)
	rules := h.file("rules.conf", `
[rules]
rule : [count] [domain=facts; key=+] [time=3600; count=2; overdraft=1] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)
	instances := h.pair(rules)
	const descriptor = `actions: [ { generic_key: { descriptor_key: key, descriptor_value: a } } ]`
	g := must(h.stage.EnvoyWith(envoyConfig(m.address, cluster("koalagate", instances[0].GRPC, http2), listener{
		name: "http", filters: []string{rateLimit("10s", "failure_mode_deny: true")},
		route: perRoute(`{ ` + descriptor + ` }, { ` + descriptor + `, hits_addend: { number: 1, is_negative_hits: true }, apply_on_stream_done: true }`),
	})))(t)
	const rounds, callers = 3, 30
	for range rounds {
		var refused, passed atomic.Int64
		release := m.hold()
		concurrently(callers, func(int) {
			r, err := trySend("GET", g.URL+"/")
			switch {
			case err == nil && r.status == http.StatusOK:
				passed.Add(1)
			case err == nil && r.status == http.StatusTooManyRequests:
				if refused.Add(1) == callers-2 {
					release() // the two that run may end
				}
			default:
				t.Errorf("%d, %v; want 200 or 429", r.status, err)
			}
		})
		if passed.Load() != 2 || m.most.Load() > 2 {
			t.Errorf("%d of %d requests passed, at most %d at the same time; want 2", passed.Load(), callers, m.most.Load())
		}
		spent(t, instances[1], "rule_no=201&domain=facts&key=a", 0)
	}
}
