package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// Every request that reaches a language model behind the sample was counted, however it
// comes. The sample states no method, path or host. The long form sends all hostile requests,
// and the short form those of HTTP/2.
func TestHostileRequestsReachNoModelUncounted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.stage.TrustUsers(false)
	sendHostileToModel(h, "")
}

// The same holds for the sample that authenticates its clients.
func TestHostileRequestsOfUsersReachNoModelUncounted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.stage.Authenticate("ann")
	sendHostileToModel(h, "ann")
}

// modelSample returns the sample for language models, which here also states the trace.
func modelSample() httpSample {
	const address = "                      - remote_address: {}\n"
	return httpSample{name: "envoy for models", acceptsPriorKnowledge: true, start: func(h *fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
		return llmEnvoyWith(h, &backend{address: app}, instances, [2]string{
			address, address + "                      - request_headers: { header_name: x-trace, descriptor_key: trace, skip_if_absent: true }\n",
		})
	}}
}

// sendHostileToModel sends hostile requests to the sample for language models, as a user if it
// authenticates.
func sendHostileToModel(h *fixture, user string) {
	t := h.T
	file := filepath.Join(h.dir, "decisions.log")
	k := h.koalagateWith([]string{"KOALAGATE_DECISION_LOG=" + file, "KOALAGATE_DECISION_LOG_PARAMS=all"}, "--rules", h.file("rules.conf", `
[rules]
rule : [direct] [domain=llm; answers!=1]                      []                         [result=2; return=103]
rule : [count]  [domain=llm; budget=tokens; remote_address=+] [time=3600; count=1000000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	ledger := must(h.stage.Ledger())(t)
	entrances := h.entrances([]httpSample{modelSample()}, ledger.Address, k)
	requests := hostileFrames()
	if *long {
		requests = append(requests, hostileTable()...)
	}
	requests = append(requests, hostileRequest{only: &h2Request{
		fields: []field{{":method", "POST"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/several"}, {"content-type", "application/json"}},
		body:   `{"n":2}`, trailers: []field{{"x-token-estimate", "1"}},
	}})
	sendHostile(t, entrances, requests, 0)
	entries := ledger.Take()
	decisions := (&decisionLog{file: file}).of(t, entries)
	reached := 0
	for trace, list := range entries {
		for _, entry := range list {
			wrong := claimed(entry, user)
			switch decided := decisions[trace]; {
			case exempt(entry.Target):
			case wrong == "" && (len(decided) != 1 || decided[0].Verdict != "allow"):
				wrong = "koalagate did not admit it once"
			case entry.Path == "/several":
				wrong = "a request for several answers"
			default:
				reached++
			}
			if wrong != "" {
				t.Errorf("%s: %s; the model got %s %q of %q, and koalagate decided %+v", trace, wrong, entry.Method, entry.Target, entry.Host, decisions[trace])
			}
		}
	}
	if reached < 50 {
		t.Errorf("%d requests reached the model; want many", reached)
	}
}
