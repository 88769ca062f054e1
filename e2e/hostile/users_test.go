package hostile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// fourEach limits bob and eve to four requests at each gateway, and decides those of ann.
const fourEach = `
[params]
uid : header X-User-Id else client-ip
who : header X-User-Id
act : gateway
[forward]
X-User-Id : who
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

// guarded is a sample that authenticates its clients.
type guarded struct {
	name      string
	entrances []rig.Entrance // HTTP/1.1 without TLS is the first
	ledger    *e2e.Ledger
	host      string // which its clients name
	// keepsTrailers is true for a gateway that passes on the trailers of clients.
	keepsTrailers bool
	// hidesDecision is true for a gateway that does not tell the application the decision.
	hidesDecision bool
}

// guardedSamples lists every sample for HTTP. Caddy also accepts HTTP/2 without TLS.
func guardedSamples() []rig.HTTPSample {
	traefik := rig.HTTPSample{Name: "traefik", AcceptsPriorKnowledge: true, HasRoutes: true, Start: func(h *rig.Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway {
		return h.Traefik(&e2e.App{Address: app}, instances[0])
	}}
	samples := append(hostileSamples(), modelSample(), traefik)
	for i := range samples {
		if samples[i].Name == "caddy" {
			samples[i].AcceptsPriorKnowledge = true
			samples[i].Start = asSample(rig.CaddyWith([2]string{"max_header_size 16KB\n", "max_header_size 16KB\n\t\tprotocols h1 h2 h2c\n"}))
		}
	}
	return samples
}

// startGuarded starts every sample for HTTP, each with a ledger of its own. The lines that
// are comments in it are in force, so that it authenticates ann, bob and eve.
func startGuarded(h *rig.Fixture, instances []*e2e.Koalagate) []*guarded {
	h.Helper()
	h.Stage.Authenticate("ann", "bob", "eve")
	samples := guardedSamples()
	all := make([]*guarded, len(samples))
	for i, sample := range samples {
		ledger := rig.Must(h.Stage.Ledger())(h.T)
		samples[i].Start = func(h *rig.Fixture, _ string, instances ...*e2e.Koalagate) *e2e.Gateway {
			return sample.Start(h, ledger.Address, instances...)
		}
		all[i] = &guarded{
			name: sample.Name, ledger: ledger, host: strings.ReplaceAll(sample.Name, " ", "-") + ".example",
			keepsTrailers: sample.Name == "haproxy", hidesDecision: sample.Name == "envoy for models",
		}
	}
	entrances := h.Entrances(samples, "", instances...)
	for _, g := range all {
		for _, t := range rig.Transports {
			if e, accepts := entrances[g.name+", "+t.Name]; accepts {
				g.entrances = append(g.entrances, e)
			}
		}
	}
	return all
}

// An authenticated client has its limit from all of its addresses, whatever headers it
// sends: none of them takes a header out of the check or out of the request that the
// gateway has set. The application gets the user whom the gateway has authenticated. Who
// does not authenticate uses up nobody's limit. The form with -long tries every name in
// every way, and with TLS, too.
func TestHostileUsersKeepTheirLimits(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	instances := h.Pair(h.File("rules.conf", fourEach))
	gateways := startGuarded(h, instances)
	rig.Concurrently(len(gateways), func(i int) {
		gateways[i].exemptHealth(t)
		gateways[i].refuseStrangers(t)
		gateways[i].refuseBob(t)
		gateways[i].passAnn(t)
	})
}

// userSenders is the number of requests of a user at a time to each gateway. With many more, checks
// would take longer than gateways wait for them, and Caddy lets a request pass without an answer.
const userSenders = 16

// clientAddresses are the addresses from which every user calls.
var clientAddresses = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}

// send sends a request from the ith address to the first entrance. It returns the status, 0
// without an answer.
func (g *guarded) send(i int, user, trace, headers string) int {
	return g.sendTo(g.entrances[0], i, user, trace, g.request(headers))
}

// request returns a request with headers.
func (g *guarded) request(headers string) rig.HostileRequest {
	r := rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: " + g.host}
	if headers != "" {
		r.Headers += "\r\n" + headers
	}
	return r
}

// sendTo sends a request from the ith address to an entrance, as a user unless it is "". It
// returns the status, 0 without an answer.
func (g *guarded) sendTo(e rig.Entrance, i int, user, trace string, r rig.HostileRequest) int {
	var credentials []string
	if user != "" {
		credentials = []string{e.Gateway.As(user)}
	}
	// Some gateways wait for the rest of what is no request.
	status, err := e.SendFrom(clientAddresses[i%len(clientAddresses)], credentials, r, trace, 2*time.Second)
	if err != nil {
		return 0
	}
	return status
}

// userAttack is a request to an entrance, by which a user may try to pass a limit or to
// become another one.
type userAttack struct {
	entrance rig.Entrance
	request  rig.HostileRequest
}

// attacks returns the requests with headers, and those that only HTTP/2 has, for all
// entrances that the form of the test has.
func (g *guarded) attacks(headers []string) (list []userAttack) {
	for i, e := range g.entrances {
		if e.Transport.IsHTTP2 {
			for _, fields := range removalsByHTTP2 {
				all := append([]rig.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: g.host}, {Name: ":path", Value: "/a"}}, fields...)
				list = append(list, userAttack{e, rig.HostileRequest{Only: &rig.H2Request{Fields: all}}})
			}
		} else if i == 0 || *long {
			for _, lines := range headers {
				list = append(list, userAttack{e, g.request(lines)})
			}
		}
	}
	return list
}

// exemptHealth checks that the exempt page needs no password, and that the application
// gets no user there: whom a client claims to be is not checked.
func (g *guarded) exemptHealth(t *testing.T) {
	t.Helper()
	for i, headers := range []string{"X-User-Id: eve", g.entrances[0].Gateway.As("eve"), "Authorization: Basic ZXZlOndyb25n", "X-User-Id: eve\r\nX_User_Id: eve\r\nConnection: close"} {
		trace := "health " + strconv.Itoa(i)
		r := rig.HostileRequest{Line: "GET /healthz HTTP/1.1", Headers: "Host: " + g.host + "\r\n" + headers}
		for _, e := range g.entrances {
			if e.Transport.IsHTTP2 && strings.Contains(headers, "Connection") {
				continue // HTTP/2 has no such header
			}
			if status, err := e.SendFrom(clientAddresses[0], nil, r, trace, 20*time.Second); err != nil || status != http.StatusOK {
				t.Errorf("%s, %s: /healthz with %q: %d, %v; want 200", g.name, e.Transport.Name, headers, status, err)
			}
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
			e := g.entrances[i%len(g.entrances)]
			if status := g.sendTo(e, i, "", "stranger", g.request(headers)); status != http.StatusUnauthorized {
				t.Errorf("%s, %s: a stranger with %q: %d; want 401", g.name, e.Transport.Name, headers, status)
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
	attacks := g.attacks(removals())
	rig.Concurrently(userSenders, func(first int) {
		for i := first; i < len(attacks); i += userSenders {
			for address := range clientAddresses {
				if *long || address == i%len(clientAddresses) {
					g.sendTo(attacks[i].entrance, address, "bob", strconv.Itoa(i), attacks[i].request)
				}
			}
		}
	})
	entries := g.ledger.Take()
	for i, a := range attacks {
		if len(entries[strconv.Itoa(i)]) > 0 {
			t.Errorf("%s, %s: bob's fifth request reached the application, with %s", g.name, a.entrance.Transport.Name, a.request)
		}
	}
}

// passAnn checks what the application gets of requests by ann, who has no limit.
func (g *guarded) passAnn(t *testing.T) {
	t.Helper()
	attacks := g.attacks(append(removals(), multiplied...))
	rig.Concurrently(userSenders, func(first int) {
		for i := first; i < len(attacks); i += userSenders {
			a := attacks[i]
			status := g.sendTo(a.entrance, i, "ann", strconv.Itoa(i), a.request)
			// The request for HTTP/2 is answered by HTTP/2, which has no Connection.
			if g.name == "caddy" && namesHeader(a.request.Headers) && !strings.Contains(a.request.Headers, "h2c") && status != http.StatusBadRequest {
				t.Errorf("%s, %s: %s: %d; want 400", g.name, a.entrance.Transport.Name, a.request, status)
			}
		}
	})
	g.passOrdinary(t)
	entries := g.ledger.Take()
	for i, a := range attacks {
		for n, entry := range entries[strconv.Itoa(i)] {
			if n > 0 {
				t.Errorf("%s, %s: %s: the request reached the application %d times", g.name, a.entrance.Transport.Name, a.request, n+1)
			}
			if wrong := g.misleads(entry, "ann"); wrong != "" {
				t.Errorf("%s, %s: %s: %s", g.name, a.entrance.Transport.Name, a.request, wrong)
			}
		}
	}
	for _, e := range g.entrances {
		want := len(connectionOptions)
		if e.Transport.IsHTTP2 {
			want = 1
		}
		if got := len(entries[e.Transport.Name]); got != want {
			t.Errorf("%s, %s: %d of %d ordinary requests reached the application", g.name, e.Transport.Name, got, want)
		}
	}
}

// passOrdinary sends the requests of ordinary clients to each entrance, with its transport
// as their trace. HTTP/2 has no options of a connection.
func (g *guarded) passOrdinary(t *testing.T) {
	t.Helper()
	for _, e := range g.entrances {
		for i, headers := range connectionOptions {
			if e.Transport.IsHTTP2 && headers != "" {
				continue
			}
			if status := g.sendTo(e, i, "ann", e.Transport.Name, g.request(headers)); status != http.StatusOK {
				t.Errorf("%s, %s: %q: %d; want 200", g.name, e.Transport.Name, headers, status)
			}
		}
	}
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
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	instances := []*e2e.Koalagate{h.Koalagate("--rules", h.File("rules.conf", fourEach))}
	ledger := rig.Must(h.Stage.Ledger())(t)
	for name, g := range map[string]*e2e.Gateway{
		"queues": rig.QueueEnvoy(h, ledger.Address, ledger.Address, instances), "models": rig.LlmEnvoy(h, &rig.Backend{Address: ledger.Address}, instances...),
	} {
		forged := strings.Join(claims, ": mallory\r\n") + ": mallory"
		status, err := rig.SendRawFor(g, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-Trace: 1\r\nX-Real-IP: mallory\r\nX_User_Id: mallory\r\n"+forged, 20*time.Second)
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
