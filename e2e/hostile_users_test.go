package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// fourEach limits bob and eve to four requests at each gateway, and decides those of ann.
const fourEach = `
[params]
uid : header X-User-Id else client-ip
act : gateway
[rules]
rule : [count] [uid=bob,eve; host=+]     [time=3600; count=4]       [result=2; return=201]
rule : [count] [domain=llm; user=bob,eve] [time=3600; count=4]       [result=2; return=202]
rule : [count] [uid=ann]                 [time=3600; count=1000000] [result=2; return=203]
rule : [direct] [act=none; path=/none]   []                         [result=2; return=102]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// guarded is a gateway that authenticates its clients.
type guarded struct {
	*e2e.Gateway
	name   string
	http2  *e2e.Gateway // the same gateway, where it accepts HTTP/2 without TLS
	ledger *e2e.Ledger
	host   string // which its clients name
	// keepsTrailers is true for a gateway that passes on the trailers of clients.
	keepsTrailers bool
	// hidesDecision is true for a gateway that does not tell the application the decision.
	hidesDecision bool
}

// startGuarded starts every sample for HTTP. The lines that are comments in it are in
// force, so that it authenticates ann, bob and eve.
func startGuarded(h *fixture, instances []*e2e.Koalagate) (all []*guarded) {
	h.Helper()
	h.stage.Authenticate("ann", "bob", "eve")
	for name, start := range map[string]func(app *e2e.App, h2 string) *e2e.Gateway{
		"envoy":           func(app *e2e.App, _ string) *e2e.Gateway { return h.envoy(app, instances...) },
		"envoy over HTTP": func(app *e2e.App, _ string) *e2e.Gateway { return h.envoyHTTP(app, instances[0]) },
		"envoy for queues": func(app *e2e.App, _ string) *e2e.Gateway {
			return queueEnvoy(h, app.Address, app.Address, instances)
		},
		"envoy for models": func(app *e2e.App, _ string) *e2e.Gateway {
			return llmEnvoy(h, &backend{address: app.Address}, instances...)
		},
		"nginx": func(app *e2e.App, h2 string) *e2e.Gateway {
			return nginxWith("nginx/nginx.conf", http2AtNginx(h2))(h, app, addressesOf(instances)...)
		},
		"accel": func(app *e2e.App, h2 string) *e2e.Gateway {
			return nginxWith("nginx/accel.conf", http2AtNginx(h2))(h, app, addressesOf(instances)...)
		},
		"caddy": func(app *e2e.App, _ string) *e2e.Gateway {
			return caddyWith([2]string{"max_header_size 16KB\n", "max_header_size 16KB\n\t\tprotocols h1 h2 h2c\n"})(h, app, addressesOf(instances)...)
		},
		"haproxy": func(app *e2e.App, h2 string) *e2e.Gateway {
			return haproxyWith([2]string{"    maxconn 900\n", "    maxconn 900\n    bind " + h2 + " proto h2\n"})(h, app, addressesOf(instances)...)
		},
	} {
		ledger := must(h.stage.Ledger())(h.T)
		second := must(e2e.FreeAddress())(h.T)
		g := start(&e2e.App{Address: ledger.Address}, second)
		at := "http://" + second
		if strings.HasPrefix(name, "envoy") || name == "caddy" {
			at = g.URL
		}
		all = append(all, &guarded{
			Gateway: g, name: name, http2: &e2e.Gateway{URL: at}, ledger: ledger, host: strings.ReplaceAll(name, " ", "-") + ".example",
			keepsTrailers: name == "haproxy", hidesDecision: name == "envoy for models",
		})
	}
	return all
}

// http2AtNginx is the replacement by which nginx also accepts HTTP/2 without TLS.
func http2AtNginx(address string) [2]string {
	return [2]string{"    client_header_timeout 5s;\n", "    listen " + address + " http2;\n    client_header_timeout 5s;\n"}
}

// An authenticated client has its limit from all of its addresses, whatever headers it
// sends: none of them takes a header out of the check or out of the request that the
// gateway has set. The application gets the user whom the gateway has authenticated. Who
// does not authenticate uses up nobody's limit. The form with -long tries every name in
// every way.
func TestHostileUsersKeepTheirLimits(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	instances := h.pair(h.file("rules.conf", fourEach))
	gateways := startGuarded(h, instances)
	concurrently(len(gateways), func(i int) {
		gateways[i].exemptHealth(t)
		gateways[i].refuseStrangers(t)
		gateways[i].refuseBob(t)
		gateways[i].passAnn(t)
	})
}

// clientAddresses are the addresses from which every user calls.
var clientAddresses = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}

// send sends a request from the ith address. It returns the status, 0 without an answer.
func (g *guarded) send(i int, user, trace, headers string) int {
	lines := "GET /a HTTP/1.1\r\nHost: " + g.host + "\r\n" + e2e.TraceHeader + ": " + trace
	if user != "" {
		lines += "\r\n" + g.As(user)
	}
	if headers != "" {
		lines += "\r\n" + headers
	}
	// Some gateways wait for the rest of what is no request.
	status, err := sendRawFrom(clientAddresses[i%len(clientAddresses)], g.Gateway, lines, 2*time.Second)
	if err != nil {
		return 0
	}
	return status
}

// sendHTTP2 sends a request by HTTP/2.
func (g *guarded) sendHTTP2(t *testing.T, user, trace string, fields []field) {
	t.Helper()
	name, credentials, _ := strings.Cut(g.As(user), ": ")
	sendFields(t, g.http2, append([]field{
		{":method", "GET"}, {":scheme", "http"}, {":authority", g.host}, {":path", "/a"}, {"x-trace", trace}, {strings.ToLower(name), credentials},
	}, fields...))
}

// exemptHealth checks that the exempt page needs no password, and that the application
// gets no user there: whom a client claims to be is not checked.
func (g *guarded) exemptHealth(t *testing.T) {
	t.Helper()
	for i, headers := range []string{"X-User-Id: eve", g.As("eve"), "Authorization: Basic ZXZlOndyb25n", "X-User-Id: eve\r\nX_User_Id: eve\r\nConnection: close"} {
		trace := "health " + strconv.Itoa(i)
		lines := "GET /healthz HTTP/1.1\r\nHost: " + g.host + "\r\n" + e2e.TraceHeader + ": " + trace + "\r\n" + headers
		if status, err := sendRawFrom(clientAddresses[0], g.Gateway, lines, 20*time.Second); err != nil || status != http.StatusOK {
			t.Errorf("%s: /healthz with %q: %d, %v; want 200", g.name, headers, status, err)
		}
		for _, entry := range g.ledger.Take()[trace] {
			for name := range entry.Header {
				if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-User-Id") {
					t.Errorf("%s: /healthz with %q: the application got %s: %q", g.name, headers, name, entry.Header[name])
				}
			}
		}
	}
}

// refuseStrangers checks that a client without a password reaches nothing, and that eve,
// whom it claims to be, still has all of her limit.
func (g *guarded) refuseStrangers(t *testing.T) {
	t.Helper()
	g.ledger.Take() // the stage has sent requests until the gateway answered
	for i := range 9 {
		for _, headers := range []string{"X-User-Id: eve", "Authorization: Basic ZXZlOndyb25n", "Authorization: Bearer e30.e30.", "Authorization: Basic ZXZlOndyb25n\r\nX-User-Id: eve"} {
			if status := g.send(i, "", "stranger", headers); status != http.StatusUnauthorized {
				t.Errorf("%s: a stranger with %q: %d; want 401", g.name, headers, status)
			}
		}
	}
	if reached := g.ledger.Take(); len(reached) != 0 {
		t.Errorf("%s: strangers reached the application: %v", g.name, reached)
	}
	for i := range 4 {
		if status := g.send(i, "eve", "eve", ""); status != http.StatusOK {
			t.Errorf("%s: request %d of eve: %d; want 200", g.name, i+1, status)
		}
	}
	if status := g.send(4, "eve", "eve", ""); status != http.StatusTooManyRequests {
		t.Errorf("%s: request 5 of eve: %d; want 429", g.name, status)
	}
	for _, entry := range g.ledger.Take()["eve"] {
		if wrong := g.misleads(entry, "eve"); wrong != "" {
			t.Errorf("%s: eve: %s", g.name, wrong)
		}
	}
}

// refuseBob checks that bob has four requests from all of his addresses.
func (g *guarded) refuseBob(t *testing.T) {
	t.Helper()
	for i := range 4 {
		if status := g.send(i, "bob", "bob", ""); status != http.StatusOK {
			t.Errorf("%s: request %d of bob: %d; want 200", g.name, i+1, status)
		}
	}
	g.ledger.Take()
	attacks := removals()
	concurrently(hostileSenders, func(first int) {
		for i := first; i < len(attacks); i += hostileSenders {
			for address := range clientAddresses {
				if *long || address == i%len(clientAddresses) {
					g.send(address, "bob", strconv.Itoa(i), attacks[i])
				}
			}
		}
	})
	first := len(attacks)
	attacks = slices.Concat(attacks, textsByHTTP2())
	concurrently(len(removalsByHTTP2), func(i int) { // Envoy waits a second before it closes some of these connections
		g.sendHTTP2(t, "bob", strconv.Itoa(first+i), removalsByHTTP2[i])
	})
	entries := g.ledger.Take()
	for i, headers := range attacks {
		if len(entries[strconv.Itoa(i)]) > 0 {
			t.Errorf("%s: bob's fifth request reached the application, with %q", g.name, headers)
		}
	}
}

// passAnn checks what the application gets of requests by ann, who has no limit.
func (g *guarded) passAnn(t *testing.T) {
	t.Helper()
	attacks := append(removals(), multiplied...)
	concurrently(hostileSenders, func(first int) {
		for i := first; i < len(attacks); i += hostileSenders {
			status := g.send(i, "ann", strconv.Itoa(i), attacks[i])
			// The request for HTTP/2 is answered by HTTP/2, which has no Connection.
			if g.name == "caddy" && namesHeader(attacks[i]) && !strings.Contains(attacks[i], "h2c") && status != http.StatusBadRequest {
				t.Errorf("%s: %q: %d; want 400", g.name, attacks[i], status)
			}
		}
	})
	first := len(attacks)
	attacks = slices.Concat(attacks, textsByHTTP2())
	concurrently(len(removalsByHTTP2), func(i int) { g.sendHTTP2(t, "ann", strconv.Itoa(first+i), removalsByHTTP2[i]) })
	for i, headers := range connectionOptions {
		if status := g.send(i, "ann", "options", headers); status != http.StatusOK {
			t.Errorf("%s: %q: %d; want 200", g.name, headers, status)
		}
	}
	g.sendHTTP2(t, "ann", "plain", nil)
	entries := g.ledger.Take()
	if len(entries["options"]) != len(connectionOptions) || len(entries["plain"]) != 1 {
		t.Errorf("%s: %d of %d ordinary requests reached the application, and %d of 1 by HTTP/2", g.name, len(entries["options"]), len(connectionOptions), len(entries["plain"]))
	}
	for i, headers := range attacks {
		for n, entry := range entries[strconv.Itoa(i)] {
			if n > 0 {
				t.Errorf("%s: %q: the request reached the application %d times", g.name, headers, n+1)
			}
			if wrong := g.misleads(entry, "ann"); wrong != "" {
				t.Errorf("%s: %q: %s", g.name, headers, wrong)
			}
		}
	}
}

// textsByHTTP2 describes removalsByHTTP2.
func textsByHTTP2() (texts []string) {
	for _, fields := range removalsByHTTP2 {
		texts = append(texts, fmt.Sprintf("HTTP/2 %q", fields))
	}
	return texts
}

// misleads returns what is wrong with a request of a user that reached the application,
// or "" if it has the user and koalagate's decision, and no claim of the client.
func (g *guarded) misleads(entry e2e.Entry, user string) string {
	parts := []http.Header{entry.Header}
	if !g.keepsTrailers {
		parts = append(parts, entry.Trailer)
	}
	for _, fields := range parts {
		for name, values := range fields {
			spelled := strings.ReplaceAll(strings.ToLower(name), "_", "-")
			if spelled == "x-user-id" && name == "X-User-Id" && slices.Equal(values, []string{user}) {
				continue
			}
			if slices.Contains(claims, spelled) && len(values) > 0 || slices.Contains(values, "mallory") && strings.HasPrefix(spelled, "x-") {
				return fmt.Sprintf("the application got %s: %q", name, values)
			}
		}
	}
	if users := entry.Header["X-User-Id"]; len(users) != 1 {
		return fmt.Sprintf("the application got the users %q; want %s", users, user)
	}
	if decision := entry.Header["X-Koala-Decision"]; !g.hidesDecision && !slices.Equal(decision, []string{"allow"}) {
		return fmt.Sprintf("the application got the decision %q; want allow", decision)
	}
	return ""
}

// namesHeader reports whether a Connection header names another field than the options
// that the sample of Caddy allows.
func namesHeader(headers string) bool {
	head, _, _ := strings.Cut(headers, "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(name, "connection") {
			continue
		}
		for option := range strings.SplitSeq(value, ",") {
			option = strings.ToLower(strings.Trim(option, " \t"))
			if !slices.Contains([]string{"", "close", "keep-alive", "upgrade", "http2-settings", "te"}, option) {
				return true
			}
		}
	}
	return false
}

// removals returns the headers by which clients may try to remove another header.
func removals() (list []string) {
	for i, name := range removable {
		spellings := []string{name, strings.ToLower(name), mixedCase(name), strings.ReplaceAll(name, "-", "_")}
		for j, way := range waysToRemove {
			for k, spelling := range spellings {
				// The short form has every way for X-User-Id, and two for each other name.
				if *long || i == 0 && k == j%len(spellings) || i > 0 && k == 0 && j%(len(waysToRemove)/2) == i {
					list = append(list, strings.ReplaceAll(way, "NAME", spelling))
				}
			}
		}
	}
	return list
}

// mixedCase returns a name in lower case with each third letter in upper case.
func mixedCase(name string) string {
	mixed := []byte(strings.ToLower(name))
	for i := 1; i < len(mixed); i += 3 {
		mixed[i] = strings.ToUpper(string(mixed[i]))[0]
	}
	return string(mixed)
}

// The samples for queues and models, as they are, drop what a client claims to be. The
// others get all hostile requests.
func TestHostileClaimsPassNoSampleOfEnvoy(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.stage.TrustUsers(false)
	instances := []*e2e.Koalagate{h.koalagate("--rules", h.file("rules.conf", fourEach))}
	ledger := must(h.stage.Ledger())(t)
	for name, g := range map[string]*e2e.Gateway{
		"queues": queueEnvoy(h, ledger.Address, ledger.Address, instances), "models": llmEnvoy(h, &backend{address: ledger.Address}, instances...),
	} {
		forged := strings.Join(claims, ": mallory\r\n") + ": mallory"
		status, err := sendRawFor(g, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-Trace: 1\r\nX-Real-IP: mallory\r\nX_User_Id: mallory\r\n"+forged, 20*time.Second)
		entries := ledger.Take()["1"]
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s: %d, %v, and %d requests reached the application; want 1", name, status, err, len(entries))
		}
		for header, values := range entries[0].Header {
			if slices.Contains(values, "mallory") {
				t.Errorf("%s: the application got %s: %q", name, header, values)
			}
		}
	}
}
