package hostile_test

import (
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// A check without an address of the client, as from an Envoy that listens on a Unix
// socket, is refused if rules need the address, and decided otherwise.
func TestHostileChecksWithoutAnAddressAreRefused(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	peers := map[string]*authv3.AttributeContext_Peer{
		"no peer": nil, "an empty peer": {}, "a Unix socket": {Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "@envoy"}}}},
		"no text": {Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "-"}}}},
	}
	for condition, want := range map[string]int{"ip=+": http.StatusBadRequest, "method=+": http.StatusOK} {
		k := h.Koalagate("--rules", h.File(condition[:2]+".conf", strings.Replace(rig.LimitedTo(1000), "[rules]", "[rules]\nrule : [count] ["+condition+"] [time=60; count=1000] [result=2; return=999]", 1)))
		conn := rig.Must(grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		defer conn.Close()
		for name, peer := range peers {
			check := rig.HTTPCheck("/", nil)
			check.Attributes.Source = peer
			if status := rig.CheckStatus(t, authv3.NewAuthorizationClient(conn), check); status != want {
				t.Errorf("%s, a rule with %s: %d; want %d", name, condition, status, want)
			}
		}
	}
}

// A client that sends the address of another one as its user, in any spelling, uses up
// no limit of that client.
func TestHostileUsersShareNoCounterWithAddresses(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	const limit = 3
	k := h.Koalagate("--rules", h.File("rules.conf", `
[params]
uid : header X-User-Id else client-ip
[rules]
rule : [count] [uid=+] [time=3600; count=3] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	app := h.App()
	gateways := []*e2e.Gateway{h.Envoy(app, k), h.Nginx(app, k), rig.HAProxyWith()(h, app, k.HTTP)}
	for i, user := range []string{"127.0.0.1", "client-ip=127.0.0.1", "uid@client-ip=127.0.0.1", "@client-ip=127.0.0.1", "::ffff:127.0.0.1"} {
		g := gateways[i%len(gateways)]
		for range limit {
			rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/a", "X-User-Id: "+user)
		}
		rig.WantStatus(t, http.StatusTooManyRequests, "GET", g.URL+"/a", "X-User-Id: "+user)
	}
	for i := range limit {
		rig.WantStatus(t, http.StatusOK, "GET", gateways[i%len(gateways)].URL+"/a")
	}
	rig.WantStatus(t, http.StatusTooManyRequests, "GET", gateways[0].URL+"/a")
}

// A web page in a browser on the same machine cannot write counters or read rules, under
// its own host name or another one; gateways' checks have the hosts of clients.
func TestHostileWebPagesReachNoAPI(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", rig.LimitedTo(1000)))
	for _, c := range []struct {
		lines string
		want  int
	}{
		{"Host: " + k.HTTP + "\r\nOrigin: http://evil.example", 403},
		{"Host: " + k.HTTP + "\r\nOrigin: null", 403},
		{"Host: " + k.HTTP + "\r\nSec-Fetch-Site: cross-site", 403},
		{"Host: evil.example", 421},
		{"Host: evil.example\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin", 421},
		{"Host: " + k.HTTP, 200},
	} {
		for _, target := range []string{"/rule/take?uid=1", "/multi/browse?argsJson=[]", "/admin/allrules", "//admin/allrules/"} {
			status, err := rig.SendRaw(&e2e.Gateway{Address: k.HTTP}, "GET "+target+" HTTP/1.1\r\n"+c.lines)
			if err != nil || status != c.want {
				t.Errorf("%s with %q: %d, %v; want %d", target, c.lines, status, err, c.want)
			}
		}
	}
	if status := rig.SendCheck(t, k.HTTP, "forward-auth", "/", []string{"X-Forwarded-Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site"}); status != http.StatusOK {
		t.Errorf("a check of a request of a web page: %d; want 200", status)
	}
}
