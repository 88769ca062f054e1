package hostile_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Rules see the host of the request, whatever name TLS stated before: a client that connects
// under another name, resumes a session of another name, or sends plain text to the
// listener passes no rule on hosts.
func TestHostileNamesOfTLSPassNoRuleOnHosts(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", hostileRules))
	app := h.App()
	h.OfferTLS("shop.example")
	blocked := rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: blocked.example"}
	for _, sample := range hostileSamples() {
		g := sample.Start(h, app.Address, k)
		sessions := tls.NewLRUClientSessionCache(8)
		for _, transport := range rig.Transports[2:] {
			for _, sni := range []string{"shop.example", "localhost"} {
				for range 2 { // the second connection resumes the session of the first
					named := *g
					named.TLS = g.TLS.Clone()
					named.TLS.ServerName, named.TLS.ClientSessionCache = sni, sessions
					e := rig.Entrance{HTTPSample: &sample, Gateway: &named, Transport: transport}
					if status, err := e.Send(blocked, "x", 20*time.Second); err != nil || status < 400 {
						t.Errorf("%s, %s, %s: %d, %v; want a refusal", sample.Name, transport.Name, sni, status, err)
					}
				}
			}
		}
		plain := rig.Entrance{HTTPSample: &sample, Gateway: g, Transport: rig.Transports[0]}
		if status, err := plain.Send(rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: rig.ShopHost}, "x", 20*time.Second); err == nil && status < 400 {
			t.Errorf("%s, plain text to the listener of TLS: %d; want a refusal", sample.Name, status)
		}
	}
	if app.Reached() != 0 {
		t.Errorf("%d requests reached the application; want none", app.Reached())
	}
}
