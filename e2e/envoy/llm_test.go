package envoy_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// completion answers as a language model does that used 600 tokens: with a JSON document, or by
// the query ?stream with an event stream. By ?silent it does not say what it used, by
// ?leave it is silent and waits after the first event until the client has left, and by
// ?reset it closes the connection instead. By ?other it answers with JSON of another kind.
// It compresses JSON for clients that accept gzip.
func completion(w http.ResponseWriter, r *http.Request) {
	const used = `"usage":{"prompt_tokens":100,"completion_tokens":500,"total_tokens":600}`
	query := r.URL.Query()
	switch {
	case query.Has("error"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"message":"overloaded"}}`)
	case query.Has("stream"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}],\"usage\":null}\n\n")
		_ = http.NewResponseController(w).Flush() // fails if the client has left
		if query.Has("leave") {
			<-r.Context().Done()
		}
		if query.Has("leave") || query.Has("reset") {
			panic(http.ErrAbortHandler)
		}
		if !query.Has("silent") {
			fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\n", used)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	case query.Has("other"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"response":"hello","eval_count":600}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		document := fmt.Sprintf(`{"choices":[{"message":{"content":"hello"}}],%s}`, used)
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			fmt.Fprint(w, document)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		_, _ = compressed.Write([]byte(document)) // the client may have left
		_ = compressed.Close()                    // as above
	}
}

// prompt sends a request to a model and returns the status and the body.
func prompt(t *testing.T, url, document string, headers ...string) (status int, body string) {
	t.Helper()
	req := rig.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(document)))(t)
	req.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp := rig.Must(rig.Client.Do(req))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(rig.Must(io.ReadAll(resp.Body))(t))
}

// The sample reserves an estimate before the request, and what the response used replaces
// it.
func TestBudgetOfTokensCloses(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	m := rig.StartBackend(t, completion)
	instances := h.Pair(h.SampleRules("examples/token-budget.conf", [2]string{"count=100k;", "count=1000;"}))
	g := rig.LlmEnvoy(h, m, instances...)
	rig.AvoidMidnight(t)
	const counter = "rule_no=202&domain=llm&budget=tokens&user="
	for i, c := range []struct {
		user, query, document string
		status, spent         int
	}{
		{"ann", "", `{"max_tokens":300}`, 200, 600},
		{"ann", "?stream", `{"max_tokens":400,"stream":true}`, 200, 1200}, // understated: past the limit
		{"ann", "", `{"max_tokens":1}`, 429, 1200},
		{"ann", "?stream", `{"max_tokens":1}`, 429, 1200},
		{"bob", "?stream&silent", `{"max_completion_tokens":700}`, 200, 700}, // the estimate stands
		{"bob", "?error", `{"max_tokens":300}`, 500, 700},                    // an error used nothing
		{"bob", "?other", `{"max_tokens":100}`, 200, 800},                    // JSON of another kind: the estimate stands
		{"bob", "", `{"max_tokens":201}`, 429, 800},
		{"cid", "?stream&silent", `{"max_tokens":-5}`, 429, 0}, // refused: no whole number
		{"cid", "?stream&silent", `{"max_tokens":"junk"}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":9e2}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":998.5}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":99999999999999999999}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":2000000000}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":10,"n":2}`, 429, 0}, // several answers
		{"cid", "?stream&silent", `{"max_tokens":10,"n":1e3}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":10,"best_of":8,"n":1}`, 429, 0},
		{"cid", "?stream&silent", `{"max_tokens":1000,"n":1}`, 200, 1000},
		{"cid", "?stream&silent", `{"max_tokens":null}`, 429, 1000},
		{"cid", "?stream&silent", `{"max_tokens":0}`, 429, 1000}, // would cost nothing
		// Envoy cannot read these, but models may.
		{"dan", "?stream&silent", `no JSON`, 429, 0},
		{"dan", "?stream&silent", `{"max_tokens":900,"seed":NaN}`, 429, 0},
		{"dan", "?stream&silent", `{"max_tokens":900} `, 200, 900},
		{"dan", "?stream&silent", `{"max_tokens":90,}`, 429, 900},
		{"dan", "?stream&silent", `/**/{"n":50}`, 429, 900},
		{"dan", "?stream&silent", "{\"max_tokens\":90,\"user\":\"\xff\"}", 429, 900},
		{"dan", "?stream&silent", "\xff\xfe{\x00}\x00", 429, 900}, // UTF-16
		{"dan", "?stream&silent", "\x1f\x8b\x08", 429, 900},       // compressed
		{"dan", "?stream&silent", `{"max_tokens":90,"a":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`, 429, 900},
		{"hal", "?stream&silent", `{"max_tokens":1,"max_tokens":900}`, 200, 900}, // models read the last one, too
		{"ida", "?stream&silent", ``, 200, 1000},                                 // the default
		{"ida", "?stream&silent", `{}`, 429, 1000},
	} {
		if status, body := prompt(t, g.URL+"/v1/chat/completions"+c.query, c.document, "X-User-Id: "+c.user); status != c.status {
			t.Fatalf("request %d of %s: status %d, body %q; want %d", i+1, c.user, status, body, c.status)
		} else if status == http.StatusOK && !strings.Contains(body, "hello") {
			t.Errorf("request %d: %q is not the whole answer", i+1, body)
		}
		rig.Spent(t, instances[i%2], counter+c.user, c.spent)
		rig.Spent(t, instances[i%2], strings.Replace(counter, "202", "201", 1)+c.user, 0) // nothing is under way
	}
	// Clients lower neither the estimate by a header nor the usage by a response that Envoy
	// cannot read.
	if status, _ := prompt(t, g.URL+"/?stream&silent", "{}", "X-User-Id: eve", "X-Token-Estimate: 250"); status != http.StatusOK {
		t.Errorf("status %d with an estimate in a header; want 200", status)
	}
	rig.Spent(t, instances[0], counter+"eve", 1000)
	if status, _ := prompt(t, g.URL+"/", `{"max_tokens":1}`, "X-User-Id: fay", "Accept-Encoding: gzip"); status != http.StatusOK {
		t.Errorf("status %d of a client that accepts gzip; want 200", status)
	}
	rig.Spent(t, instances[0], counter+"fay", 600)
	trusting := rig.LlmEnvoyWith(h, m, instances, [2]string{"- { remove: x-token-estimate }\n", "- { remove: x-nothing }\n"})
	if status, _ := prompt(t, trusting.URL+"/?stream&silent", "{}", "X-User-Id: gil", "X-Token-Estimate: 250"); status != http.StatusOK {
		t.Errorf("status %d with an estimate of a filter; want 200", status)
	}
	rig.Spent(t, instances[0], counter+"gil", 250)
}

// Envoy's pattern without estimates: a request looks before, and the response is charged
// at its end. The charge may be named, or be an ordinary descriptor of an overdraft rule.
func TestChargesAfterTheResponseCloseABudget(t *testing.T) {
	t.Parallel()
	const (
		estimate = `- metadata: { descriptor_key: estimate, source: DYNAMIC, metadata_key: { key: llm, path: [ { key: estimate } ] }, default_value: "1000" }`
		receipt  = `- &receipt { metadata: { descriptor_key: koala.receipt, source: DYNAMIC, metadata_key: { key: envoy.filters.http.ratelimit, path: [ { key: receipt } ] } } }`
		budget   = `- generic_key: { descriptor_key: budget, descriptor_value: tokens }`
		user     = `- request_headers: { header_name: x-user-id, descriptor_key: user }`
		charge   = `- generic_key: { descriptor_key: koala.op, descriptor_value: charge }`
		answers  = `- metadata: { descriptor_key: answers, source: DYNAMIC, metadata_key: { key: llm, path: [ { key: answers } ] }, default_value: "1" }`
		bestOf   = `- metadata: { descriptor_key: best_of, source: DYNAMIC, metadata_key: { key: llm, path: [ { key: best_of } ] }, default_value: "1" }`
		line     = "\n                      "
		status   = "                    - actions:" + line + "- *receipt" + line
	)
	for name, entries := range map[string]string{"ordinary": budget + line + user, "named": budget + line + user + line + charge} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			m := rig.StartBackend(t, completion)
			instances := h.Pair(h.File("rules.conf", `
[rules]
rule : [count] [domain=llm; budget=tokens; user=+] [time=3600; count=1000; overdraft=1] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
			sample := string(rig.Must(os.ReadFile(h.Stage.Path("envoy/envoy-llm.yaml")))(t))
			_, settled, _ := strings.Cut(sample, status)
			settled, _, _ = strings.Cut(settled, "          http_filters:")
			g := rig.LlmEnvoyWith(h, m, instances, [2]string{line + estimate + line + answers + line + bestOf, line + "hits_addend: { number: 0 }"},
				[2]string{receipt, entries}, [2]string{status + settled, ""})
			// The first two requests find something left; their charges pass the limit.
			for i, c := range []struct {
				user, query   string
				status, spent int
			}{
				{"ann", "", 200, 600},
				{"ann", "?stream", 200, 1200},
				{"ann", "", 429, 1200},
				{"ann", "?stream", 429, 1200},
				{"bob", "?stream", 200, 600},
				{"bob", "", 200, 1200},
				{"bob", "", 429, 1200},
			} {
				if status, body := prompt(t, g.URL+"/v1/chat/completions"+c.query, `{"max_tokens":300}`, "X-User-Id: "+c.user); status != c.status {
					t.Fatalf("request %d of %s: status %d, body %q; want %d", i+1, c.user, status, body, c.status)
				}
				rig.Spent(t, instances[i%2], "rule_no=202&domain=llm&budget=tokens&user="+c.user, c.spent)
			}
		})
	}
}

// Envoy's pattern for requests at the same time: +1 before and -1 at the end. Envoy
// reports the end of refused requests, too, which an overdraft rule has recorded.
func TestRefundsAtTheEndLimitConcurrency(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	m := rig.StartBackend(t, completion)
	rules := h.File("rules.conf", `
[rules]
rule : [count] [domain=facts; key=+] [time=3600; count=2; overdraft=1] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)
	instances := h.Pair(rules)
	const descriptor = `actions: [ { generic_key: { descriptor_key: key, descriptor_value: a } } ]`
	g := rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(m.Address, rig.Cluster("koalagate", instances[0].GRPC, rig.HTTP2), rig.Listener{
		Name: "http", Filters: []string{rig.RateLimit(rig.Ample, "failure_mode_deny: true")},
		Route: rig.PerRoute(`{ ` + descriptor + ` }, { ` + descriptor + `, hits_addend: { number: 1, is_negative_hits: true }, apply_on_stream_done: true }`),
	})))(t)
	const rounds, callers = 3, 30
	for range rounds {
		var refused, passed atomic.Int64
		release := m.Hold()
		rig.Concurrently(callers, func(int) {
			r, err := rig.TrySend("GET", g.URL+"/")
			switch {
			case err == nil && r.Status == http.StatusOK:
				passed.Add(1)
			case err == nil && r.Status == http.StatusTooManyRequests:
				if refused.Add(1) == callers-2 {
					release() // the two that run may end
				}
			default:
				t.Errorf("%d, %v; want 200 or 429", r.Status, err)
			}
		})
		if passed.Load() != 2 || m.MostAtOnce() > 2 {
			t.Errorf("%d of %d requests passed, at most %d at the same time; want 2", passed.Load(), callers, m.MostAtOnce())
		}
		rig.Spent(t, instances[1], "rule_no=201&domain=facts&key=a", 0)
	}
}
