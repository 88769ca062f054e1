package hostile_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Every request that reaches a language model behind the sample was counted, however it
// comes. The sample states no method, path or host. The long form sends all hostile requests,
// and the short form those of HTTP/2.
func TestHostileRequestsReachNoModelUncounted(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	sendHostileToModel(h, "")
}

// The same holds for the sample that authenticates its clients.
func TestHostileRequestsOfUsersReachNoModelUncounted(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.Authenticate("ann")
	sendHostileToModel(h, "ann")
}

// modelSample returns the sample for language models, which here also states the trace.
func modelSample() rig.HTTPSample {
	const address = "                      - remote_address: {}\n"
	return rig.HTTPSample{Name: "envoy for models", AcceptsPriorKnowledge: true, Start: func(h *rig.Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
		return rig.LlmEnvoyWith(h, &rig.Backend{Address: app}, instances, [2]string{
			address, address + "                      - request_headers: { header_name: x-trace, descriptor_key: trace, skip_if_absent: true }\n",
		})
	}}
}

// sendHostileToModel sends hostile requests to the sample for language models, as a user if it
// authenticates.
func sendHostileToModel(h *rig.Fixture, user string) {
	t := h.T
	file := filepath.Join(h.Dir, "decisions.log")
	k := h.KoalagateWith([]string{"KOALAGATE_DECISION_LOG=" + file, "KOALAGATE_DECISION_LOG_PARAMS=all"}, "--rules", h.File("rules.conf", `
[rules]
rule : [direct] [domain=llm; answers!=1]                      []                         [result=2; return=103]
rule : [count]  [domain=llm; budget=tokens; remote_address=+] [time=3600; count=1000000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	ledger := rig.Must(h.Stage.Ledger())(t)
	entrances := h.Entrances([]rig.HTTPSample{modelSample()}, ledger.Address, k)
	requests := hostileFrames()
	if *long {
		requests = append(requests, hostileTable()...)
	}
	requests = append(requests, rig.HostileRequest{Only: &rig.H2Request{
		Fields: []rig.Field{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/several"}, {Name: "content-type", Value: "application/json"}},
		Body:   `{"n":2}`, Trailers: []rig.Field{{Name: "x-token-estimate", Value: "1"}},
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
			// A client may leave after a decision, before the gateway passes its request on. Only
			// requests in the bodies of others share a trace.
			case wrong == "" && trace == pipelined && len(decided) < len(list):
				wrong = "koalagate did not decide all of them"
			case wrong == "" && trace != pipelined && (len(decided) != 1 || len(list) != 1):
				wrong = "koalagate did not decide it once"
			case wrong == "" && slices.ContainsFunc(decided, func(d hostileDecision) bool { return d.Verdict != "allow" }):
				wrong = "koalagate did not admit it"
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
