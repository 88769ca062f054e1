package hostile_test

import (
	"fmt"
	rand "math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// hostileRules records each request in the decision log with its trace, and blocks a
// host.
const hostileRules = `
[params]
trace : header X-Trace
uid   : header X-User-Id
act   : gateway
[rules]
rule : [direct] [host=blocked.example]  [] [result=2; return=101]
rule : [direct] [trace=none; uid=none; act=none; method=none; path=/none] [] [result=2; return=102]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// hostileSamples lists the samples, unchanged except for X-Trace, which Envoy sends over
// HTTP only if it is listed.
func hostileSamples() []rig.HTTPSample {
	const cookie, trace = "                - { exact: cookie, ignore_case: true }\n", "                - { exact: x-trace, ignore_case: true }\n"
	return []rig.HTTPSample{
		{Name: "envoy", AcceptsPriorKnowledge: true, HasRoutes: true, Start: func(h *rig.Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
			return h.Envoy(&e2e.App{Address: app}, instances...)
		}},
		{Name: "envoy over HTTP", AcceptsPriorKnowledge: true, Start: func(h *rig.Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
			return h.EnvoyHTTPWith(&e2e.App{Address: app}, instances[0], [2]string{cookie, cookie + trace})
		}},
		{Name: "envoy with a queue", AcceptsPriorKnowledge: true, Start: func(h *rig.Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
			return rig.QueueEnvoy(h, app, app, instances)
		}},
		{Name: "nginx", FailsOpen: true, HasRoutes: true, Start: asSample(rig.NginxWith("nginx/nginx.conf"))},
		{Name: "accel", FailsOpen: true, HasRoutes: true, Start: asSample(rig.NginxWith("nginx/accel.conf"))},
		{Name: "caddy", FailsOpen: true, HasRoutes: true, Start: asSample(rig.CaddyWith())},
		{Name: "haproxy", FailsOpen: true, HasRoutes: true, Start: asSample(rig.HAProxyWith())},
	}
}

// asSample returns the start of a sample that checks requests over HTTP.
func asSample(start func(*rig.Fixture, *e2e.App, ...string) *e2e.Gateway) rig.StartSample {
	return func(h *rig.Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
		return start(h, &e2e.App{Address: app}, rig.AddressesOf(instances)...)
	}
}

// The numbers of different hostile requests, and in one round. Each goes to every entrance
// that gets it: ten to twenty.
const (
	hostileCount     = 650
	hostileCountLong = 10_000
	hostileRound     = 2000
)

// koalagate has decided every request that reaches the application behind a sample, by
// the method, path and host that the application's router reads, however the request comes:
// by HTTP/1.1 or HTTP/2, with TLS or without. The requests are known and random spellings
// of methods, targets, hosts, headers and frames; go test -long sends more.
func TestHostileRequestsReachNothingUndecided(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	count := hostileCount
	if *long {
		count = hostileCountLong
	}
	sendHostileTo(h, "", count)
}

// The same holds for samples that authenticate their clients, whose user koalagate and
// the application get.
func TestHostileRequestsOfUsersReachNothingUndecided(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.Authenticate("ann")
	count := hostileCount / 4
	if *long {
		count = hostileCountLong / 4
	}
	sendHostileTo(h, "ann", count)
}

// sendHostileTo sends hostile requests to all gateways, as a user if they authenticate.
func sendHostileTo(h *rig.Fixture, user string, count int) {
	t := h.T
	file := filepath.Join(h.Dir, "decisions.log")
	program := rig.Binary
	if *long { // the race detector, which is several times slower, covers the short form
		program = h.Released()
	}
	k := rig.Must(h.Stage.Koalagate(program, append(rig.RaceSettings, "KOALAGATE_DECISION_LOG="+file, "KOALAGATE_DECISION_LOG_PARAMS=all"),
		"--rules", h.File("rules.conf", hostileRules)))(t)
	ledger := rig.Must(h.Stage.Ledger())(t)
	d := differential{user: user, log: &decisionLog{file: file}, ledger: ledger, entrances: h.Entrances(hostileSamples(), ledger.Address, k)}
	random := rand.New(rand.NewPCG(1, 2))
	requests := append(hostileTable(), hostileFrames()...)
	for d.tried < count && !t.Failed() {
		for len(requests) < min(hostileRound, count-d.tried) {
			requests = append(requests, hostileRandom(random))
		}
		d.round(t, requests)
		requests = requests[:0]
	}
	t.Logf("%d of %d requests reached the application", d.reached, d.sent)
}

// differential compares what reaches the application behind gateways with the decisions.
type differential struct {
	user      string // "" if the gateways do not authenticate
	log       *decisionLog
	ledger    *e2e.Ledger
	entrances map[string]rig.Entrance
	tried     int // different requests
	sent      int
	reached   int
}

// round sends requests to all entrances.
func (d *differential) round(t *testing.T, requests []rig.HostileRequest) {
	t.Helper()
	d.sent += sendHostile(t, d.entrances, requests, d.tried)
	entries := d.ledger.Take()
	decisions := d.log.of(t, entries)
	for name, e := range d.entrances {
		for i, r := range requests {
			trace := traceOf(name, d.tried+i)
			for _, entry := range entries[trace] {
				d.reached++
				if wrong := undecided(entry, d.user, decisions[trace], e.HasRoutes); wrong != "" {
					t.Errorf("%s, %s: %s; the application got %s %q of %q, and koalagate decided %+v",
						name, r, wrong, entry.Method, entry.Target, entry.Host, decisions[trace])
				}
			}
		}
	}
	for _, entry := range entries[""] {
		if entry.Target == "/healthz" {
			continue // the stage sends it until the gateway answers
		}
		t.Errorf("the application got %s %q of %q without its trace", entry.Method, entry.Target, entry.Host)
	}
	for _, entry := range entries[pipelined] {
		t.Errorf("the application got %s %q of %q, which is refused", entry.Method, entry.Target, entry.Host)
	}
	d.tried += len(requests)
}

// traceOf returns the trace of a request at an entrance.
func traceOf(entrance string, i int) string {
	return fmt.Sprintf("%s-%d", strings.NewReplacer(" ", "-", ",", "", "/", "", ".", "").Replace(entrance), i)
}

// hostileSenders is the number of connections to each entrance.
const hostileSenders = 101

// sendHostile sends every request to every entrance that gets it, with traces from first on,
// and checks that plain ones get 200. It returns the number of requests that it has sent.
func sendHostile(t *testing.T, entrances map[string]rig.Entrance, requests []rig.HostileRequest, first int) int {
	t.Helper()
	var senders sync.WaitGroup
	var sent atomic.Int64
	for name, e := range entrances {
		for sender := range hostileSenders {
			senders.Go(func() {
				for i := sender; i < len(requests); i += hostileSenders {
					r, wait := requests[i], 20*time.Second
					if !gets(e, first+i, r) {
						continue
					}
					if !r.Plain {
						wait = 2 * time.Second // some gateways wait for the rest of what is no request
					}
					sent.Add(1)
					status, err := e.Send(r, traceOf(name, first+i), wait)
					if r.Plain && (err != nil || status != http.StatusOK) {
						t.Errorf("%s, %s: %d, %v; want 200", name, r, status, err)
					}
				}
			})
		}
	}
	senders.Wait()
	return int(sent.Load())
}

// claims lists headers from which applications read another user, certificate, path, host or
// method than the request's own. None of them may reach the application from a client, in any
// spelling.
var claims = []string{
	"x-user-id", "x-koala-param-act", "forwarded", "x-forwarded-prefix", "x-original-url", "x-original-uri", "x-rewrite-url",
	"x-http-method-override", "x-http-method", "x-method-override", "x-forwarded-method", "x-forwarded-uri",
	"x-forwarded-client-cert", "client-cert", "client-cert-chain",
}

// claimed returns what is wrong with the headers of a request that reached the application;
// "" if its user is the one whom the gateway has authenticated, and nothing is a claim of the
// client's.
func claimed(entry e2e.Entry, user string) string {
	for name, values := range entry.Header {
		spelled := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if name == "X-User-Id" && user != "" && slices.Equal(values, []string{user}) && !exempt(entry.Target) {
			continue
		}
		if slices.Contains(claims, spelled) || spelled == "x-koala-rule" && values[0] == "9" {
			return "the client's " + name + " reached the application"
		}
	}
	return ""
}

// undecided returns what is wrong with a request that reached the application, or "" if
// koalagate allowed it as the application reads it, and for its user. A gateway that
// hasRoutes sets the act of downloads.
func undecided(entry e2e.Entry, user string, decisions []hostileDecision, hasRoutes bool) string {
	if wrong := claimed(entry, user); wrong != "" {
		return wrong
	}
	if host, found := entry.Header["X-Forwarded-Host"]; found && hostOf(host[0]) != hostOf(entry.Host) {
		return fmt.Sprintf("X-Forwarded-Host is %q", host)
	}
	if len(decisions) == 0 {
		if exempt(entry.Target) {
			return ""
		}
		return "koalagate did not decide"
	}
	d := decisions[0]
	path, err := url.PathUnescape(d.Path)
	switch {
	case len(decisions) > 1:
		return "koalagate decided more than once"
	case d.Verdict != "allow":
		return "koalagate refused"
	case d.UID != user:
		return "koalagate counted for " + d.UID
	case d.Method != strings.ToUpper(entry.Method):
		return "the methods differ"
	case d.Host != hostOf(entry.Host):
		return "the hosts differ"
	case pathOf(entry.Target) == "*" && d.Path == "*":
		return ""
	case err != nil || path != entry.Path:
		return "the paths differ"
	case resolved(entry.Path) != path:
		return "another router reads the path " + resolved(entry.Path)
	case d.Act != "download" && strings.HasPrefix(path, "/downloads/") && hasRoutes:
		return "it passed without act=download"
	case d.Act != "" && !strings.HasPrefix(strings.ToLower(path), "/downloads/"):
		return "its act is of another path"
	}
	return ""
}

// exempt reports whether the samples pass a target on without a check.
func exempt(target string) bool { return pathOf(target) == "/healthz" }

// pathOf returns a target without its query.
func pathOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}

var portAtEnd = regexp.MustCompile(`:[0-9]*$`)

// hostOf returns the name of a Host header as applications compare it.
func hostOf(host string) string {
	name := portAtEnd.ReplaceAllString(strings.ToLower(host), "")
	if inside, found := strings.CutPrefix(name, "["); found {
		return strings.TrimSuffix(inside, "]")
	}
	return strings.TrimSuffix(name, ".")
}

// resolved returns the path that a lenient router reads in a decoded path: a
// backslash is a slash, parameters of dot segments are dropped, and dot segments
// and empty segments are resolved.
func resolved(path string) string {
	segments := strings.Split(strings.ReplaceAll(path, `\`, "/"), "/")
	var kept []string
	for i, segment := range segments {
		if name, _, found := strings.Cut(segment, ";"); found && (name == "." || name == "..") {
			segment = name
		}
		last := i == len(segments)-1
		switch segment {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case "", ".":
		default:
			kept = append(kept, segment)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// gets reports whether the form of the test sends the ith request to an entrance. The short
// form sends a fourth by HTTP/1.1 over TLS, where requests are read as without TLS.
func gets(e rig.Entrance, i int, r rig.HostileRequest) bool {
	switch {
	case e.Transport.IsHTTP2:
		return true
	case r.Only != nil:
		return false
	}
	return *long || !e.Transport.IsTLS || i%4 == 0
}
