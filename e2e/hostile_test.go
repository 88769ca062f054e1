package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
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

// hostileGateways starts the samples of all gateways in front of the application,
// unchanged except for X-Trace, which Envoy sends over HTTP only if it is listed.
func hostileGateways(h *fixture, app string, k *e2e.Koalagate) map[string]*e2e.Gateway {
	h.Helper()
	plain := &e2e.App{Address: app}
	return map[string]*e2e.Gateway{
		"envoy": h.envoy(plain, k), "nginx": h.nginx(plain, k), "accel": nginxWith("nginx/accel.conf")(h, plain, k.HTTP),
		"caddy": caddyWith()(h, plain, k.HTTP), "haproxy": haproxyWith()(h, plain, k.HTTP),
		"envoy over HTTP": must(h.stage.EnvoySample("envoy/envoy-http.yaml",
			[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
			[2]string{"port_value: 8000 ", "port_value: " + port(app) + " "},
			[2]string{"port_value: 9981 ", "port_value: " + port(k.HTTP) + " "},
			[2]string{"port_value: 9982 ", "port_value: " + port(k.Admin) + " "},
			[2]string{"                - { exact: cookie, ignore_case: true }\n", "                - { exact: cookie, ignore_case: true }\n                - { exact: x-trace, ignore_case: true }\n"}))(h.T),
	}
}

// The numbers of hostile requests to all gateways together, and in one round to each.
const (
	hostileCount     = 10_000
	hostileCountLong = 1_000_000
	hostileRound     = 2000
)

// koalagate has decided every request that reaches the application behind a sample, by
// the method, path and host that the application's router reads. The requests are known
// and random spellings of methods, targets, hosts and headers; go test -long sends more.
func TestHostileRequestsReachNothingUndecided(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.stage.TrustUsers(false)
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
	h := newFixture(t)
	h.stage.Authenticate("ann")
	count := hostileCount / 4
	if *long {
		count = hostileCountLong / 4
	}
	sendHostileTo(h, "ann", count)
}

// sendHostileTo sends hostile requests to all gateways, as a user if they authenticate.
func sendHostileTo(h *fixture, user string, count int) {
	t := h.T
	file := filepath.Join(h.dir, "decisions.log")
	program := binary
	if *long { // the race detector, which is several times slower, covers the short form
		program = h.released()
	}
	k := must(h.stage.Koalagate(program, append(raceSettings, "KOALAGATE_DECISION_LOG="+file, "KOALAGATE_DECISION_LOG_PARAMS=all"),
		"--rules", h.file("rules.conf", hostileRules)))(t)
	ledger := must(h.stage.Ledger())(t)
	d := differential{user: user, log: &decisionLog{file: file}, ledger: ledger, gateways: hostileGateways(h, ledger.Address, k)}
	random := rand.New(rand.NewPCG(1, 2))
	requests := hostileTable()
	for d.sent < count && !t.Failed() {
		for len(requests) < min(hostileRound, (count-d.sent)/len(d.gateways)+1) {
			requests = append(requests, hostileRandom(random))
		}
		d.round(t, requests)
		requests = requests[:0]
	}
	t.Logf("%d of %d requests reached the application", d.reached, d.sent)
}

// differential compares what reaches the application behind gateways with the decisions.
type differential struct {
	user     string // "" if the gateways do not authenticate
	log      *decisionLog
	ledger   *e2e.Ledger
	gateways map[string]*e2e.Gateway
	sent     int
	reached  int
}

// round sends requests to all gateways.
func (d *differential) round(t *testing.T, requests []hostileRequest) {
	t.Helper()
	sendHostile(t, d.gateways, requests, d.sent)
	entries := d.ledger.Take()
	decisions := d.log.of(t, entries)
	for name := range d.gateways {
		for i, r := range requests {
			trace := traceOf(name, d.sent+i)
			for _, entry := range entries[trace] {
				d.reached++
				if wrong := undecided(entry, d.user, decisions[trace], name != "envoy over HTTP"); wrong != "" {
					t.Errorf("%s, %q: %s; the application got %s %q of %q, and koalagate decided %+v",
						name, r.raw(trace), wrong, entry.Method, entry.Target, entry.Host, decisions[trace])
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
	d.sent += len(d.gateways) * len(requests)
}

func traceOf(gateway string, i int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(gateway, " ", "-"), i)
}

// hostileSenders is the number of connections to each gateway.
const hostileSenders = 64

// sendHostile sends every request to every gateway, with traces from first on, and checks
// that plain ones get 200.
func sendHostile(t *testing.T, gateways map[string]*e2e.Gateway, requests []hostileRequest, first int) {
	t.Helper()
	var senders sync.WaitGroup
	for name, g := range gateways {
		for sender := range hostileSenders {
			senders.Go(func() {
				for i := sender; i < len(requests); i += hostileSenders {
					wait := 20 * time.Second
					if !requests[i].plain {
						wait = 2 * time.Second // some gateways wait for the rest of what is no request
					}
					status, err := sendRawFor(g, requests[i].raw(traceOf(name, first+i)), wait)
					if requests[i].plain && (err != nil || status != http.StatusOK) {
						t.Errorf("%s, %q: %d, %v; want 200", name, requests[i].raw(""), status, err)
					}
				}
			})
		}
	}
	senders.Wait()
}

// claims lists headers from which applications read another user, path, host or method
// than the request's own. None of them may reach the application from a client, in any
// spelling.
var claims = []string{
	"x-user-id", "x-koala-param-act", "forwarded", "x-forwarded-prefix", "x-original-url", "x-original-uri", "x-rewrite-url",
	"x-http-method-override", "x-http-method", "x-method-override", "x-forwarded-method", "x-forwarded-uri",
}

// undecided returns what is wrong with a request that reached the application, or "" if
// koalagate allowed it as the application reads it, and for its user. A gateway that
// hasRoutes sets the act of downloads.
func undecided(entry e2e.Entry, user string, decisions []hostileDecision, hasRoutes bool) string {
	for name, values := range entry.Header {
		spelled := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if name == "X-User-Id" && user != "" && slices.Equal(values, []string{user}) && !exempt(entry.Target) {
			continue
		}
		if slices.Contains(claims, spelled) || spelled == "x-koala-rule" && values[0] == "9" {
			return "the client's " + name + " reached the application"
		}
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
