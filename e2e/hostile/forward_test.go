package hostile_test

import (
	"fmt"
	rand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// forwarding tells the application the user of a token, whose keys are in a file.
const forwarding = `
[tokens]
main : keys.json; issuer=https://id.example.com/; audience=api
[params]
who : jwt main sub
[forward]
X-User-Id : who
[rules]
rule : [direct] [path=/black] [] [result=2; return=101]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// spellingsLong is the number of different spellings in the long form: the known ones, and random
// combinations of them. Half are of the user's requests, and half of nobody's.
const spellingsLong = 10_000

// startForwarding starts an instance with rules that forward the user of a token, and returns it
// and the issuer of the tokens.
func startForwarding(h *rig.Fixture) (*e2e.Koalagate, *rig.Issuer) {
	h.Helper()
	issuer := rig.NewIssuer(h.T, "1")
	h.File("keys.json", issuer.Keys())
	return h.Koalagate("--rules", h.File("rules.conf", forwarding)), issuer
}

// The application behind each sample learns the user from koalagate: no spelling of the
// header in a request of a client replaces it, removes it, or stands in for a missing one.
// The same holds where nothing is checked, and when koalagate is gone.
func TestForwardedHeadersAreKoalagates(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	k, issuer := startForwarding(h)
	ledger := rig.Must(h.Stage.Ledger())(t)
	samples := slices.DeleteFunc(hostileSamples(), func(s rig.HTTPSample) bool { return s.Name == "envoy with a queue" })
	f := &forwardedTest{issuer: issuer, ledger: ledger, entrances: h.Entrances(samples, ledger.Address, k)}
	all := spellings()
	few := all[:min(len(all), 200)]
	f.send(t, "ann", "/a", all[:max(len(all)/2, len(few))])
	f.send(t, "", "/a", all[min(len(all)/2, len(all)-len(few)):])
	f.send(t, "ann", "/healthz", few)
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	f.isGone = true
	f.send(t, "ann", "/a", few)
	t.Logf("%d of %d requests with %d spellings reached the application", f.reached, f.sent, len(all))
}

// spellings returns the headers by which a client may try to be another user.
func spellings() (list []string) {
	names := []string{"X-User-Id", "x-user-id", "X-USER-ID", mixedCase("X-User-Id"), "X_User_Id", "X-User_Id", "x_user-id"}
	for _, way := range waysToRemove {
		for i, name := range names {
			if *long || i < 2 || i == 4 {
				list = append(list, strings.ReplaceAll(way, "NAME", name))
			}
		}
	}
	if !*long {
		return list
	}
	random := rand.New(rand.NewPCG(3, 4))
	for len(list) < spellingsLong {
		var lines []string
		for range 1 + random.IntN(4) {
			way := waysToRemove[random.IntN(len(waysToRemove))]
			if strings.Contains(way, "\r\n\r\n") { // ends the headers
				continue
			}
			lines = append(lines, strings.ReplaceAll(way, "NAME", names[random.IntN(len(names))]))
		}
		list = append(list, strings.Join(lines, "\r\n"))
	}
	return list
}

// forwardedTest sends requests to all entrances, and compares what the application learns.
type forwardedTest struct {
	issuer        *rig.Issuer
	ledger        *e2e.Ledger
	entrances     map[string]rig.Entrance
	isGone        bool // koalagate does not answer
	sent, reached int
}

// send sends requests for a path with each of the headers, with a token of the user unless the
// user is "".
func (f *forwardedTest) send(t *testing.T, user, path string, headers []string) {
	t.Helper()
	own, bearer := rig.ShopHost, ""
	if user != "" {
		bearer = "Bearer " + f.issuer.Token(user)
		own += "\r\nAuthorization: " + bearer
	}
	requests := []rig.HostileRequest{{Line: "GET " + path + " HTTP/1.1", Headers: own, Plain: !f.isGone}}
	for _, lines := range headers {
		requests = append(requests, rig.HostileRequest{Line: "GET " + path + " HTTP/1.1", Headers: own + "\r\nX-Own: 1\r\n" + lines})
	}
	for _, fields := range removalsByHTTP2 {
		all := []rig.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: path}}
		if bearer != "" {
			all = append(all, rig.Field{Name: "authorization", Value: bearer})
		}
		requests = append(requests, rig.HostileRequest{Only: &rig.H2Request{Fields: append(all, fields...)}})
	}
	f.sent += sendHostile(t, f.entrances, requests, 0)
	entries := f.ledger.Take()
	for name, e := range f.entrances {
		want := []string{user}
		if user == "" || f.isGone || path == "/healthz" {
			want = nil
		}
		arrived := 0
		for i, r := range requests {
			for _, entry := range entries[traceOf(name, i)] {
				arrived++
				if wrong := misidentified(entry, want); wrong != "" {
					t.Errorf("%s, gone %t, %s: %s; want %q", name, f.isGone, r, wrong, want)
				}
			}
		}
		if isOpen := e.FailsOpen || !f.isGone || path == "/healthz"; isOpen != (arrived > 0) {
			t.Errorf("%s: %d of %d requests for %s reached the application", name, arrived, len(requests), path)
		}
		f.reached += arrived
	}
}

// misidentified returns what is wrong with the user of a request that reached the application,
// "" if it is the wanted one.
func misidentified(entry e2e.Entry, want []string) string {
	var got []string
	for name, values := range entry.Header {
		if strings.ReplaceAll(strings.ToLower(name), "_", "-") == "x-user-id" {
			if name != "X-User-Id" {
				return fmt.Sprintf("the application got %s: %q", name, values)
			}
			got = values
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("the application got the user %q", got)
	}
	return ""
}

// Nobody but the application learns the user: neither clients of allowed requests nor those
// of refused ones.
func TestForwardedHeadersStayBehindTheGateway(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	k, issuer := startForwarding(h)
	app := rig.Must(h.Stage.App())(t)
	for _, sample := range hostileSamples() {
		g := sample.Start(h, app.Address, k)
		for path, want := range map[string]int{"/a": http.StatusOK, "/black": http.StatusForbidden} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+issuer.Token("zacharias"))
			client := http.Client{Timeout: 20 * time.Second}
			res, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want || strings.Contains(fmt.Sprint(res.Header), "zacharias") || res.Header.Get("X-Envoy-Auth-Headers-To-Remove") != "" {
				t.Errorf("%s: %s with the headers %v; want %s without the user", sample.Name, res.Status, res.Header, strconv.Itoa(want))
			}
		}
	}
}

// The answer alone replaces the header at each sample, and drops it: also if the gateway lets
// the client's through before the check.
func TestForwardedHeadersReplaceTheClients(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(true)
	k, issuer := startForwarding(h)
	ledger := rig.Must(h.Stage.Ledger())(t)
	for _, sample := range hostileSamples() {
		g := sample.Start(h, ledger.Address, k)
		for i, c := range []struct {
			credentials string
			want        []string
		}{
			{"Bearer " + issuer.Token("ann"), []string{"ann"}},
			{"Basic YW5uOnNlY3JldA==", nil},
			{"Bearer " + rig.NewIssuer(t, "1").Token("ann"), nil}, // forged
			{"Bearer " + issuer.Token("ann", map[string]any{"exp": 1}), nil},
			{"Bearer " + issuer.Token("ann", map[string]any{"aud": "shop"}), nil},
			{"Bearer " + issuer.Token("ann") + ", Bearer " + issuer.Token("mallory"), nil},
		} {
			ledger.Take()
			status, err := rig.SendRawFor(g, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-Trace: 1\r\nX-User-Id: mallory\r\nX-User-Id: eve\r\nAuthorization: "+c.credentials, 20*time.Second)
			entries := ledger.Take()["1"]
			if err != nil || status != http.StatusOK || len(entries) != 1 {
				t.Fatalf("%s, request %d: %d, %v, %d requests reached the application", sample.Name, i, status, err, len(entries))
			}
			if wrong := misidentified(entries[0], c.want); wrong != "" {
				t.Errorf("%s with %s: %s; want %q", sample.Name, c.credentials, wrong, c.want)
			}
		}
	}
}
