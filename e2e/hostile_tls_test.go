package e2e_test

import (
	"crypto/tls"
	"testing"
	"time"
)

// Rules see the host of the request, whatever name TLS stated before: a client that connects
// under another name, resumes a session of another name, or sends plain text to the
// listener passes no rule on hosts.
func TestHostileNamesOfTLSPassNoRuleOnHosts(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", hostileRules))
	app := h.app()
	h.offerTLS("shop.example")
	blocked := hostileRequest{line: "GET /a HTTP/1.1", headers: "Host: blocked.example"}
	for _, sample := range hostileSamples() {
		g := sample.start(h, app.Address, k)
		sessions := tls.NewLRUClientSessionCache(8)
		for _, transport := range transports[2:] {
			for _, sni := range []string{"shop.example", "localhost"} {
				for range 2 { // the second connection resumes the session of the first
					named := *g
					named.TLS = g.TLS.Clone()
					named.TLS.ServerName, named.TLS.ClientSessionCache = sni, sessions
					e := entrance{&sample, &named, transport}
					if status, err := e.send(blocked, "x", 20*time.Second); err != nil || status < 400 {
						t.Errorf("%s, %s, %s: %d, %v; want a refusal", sample.name, transport.name, sni, status, err)
					}
				}
			}
		}
		plain := entrance{&sample, g, transports[0]}
		if status, err := plain.send(hostileRequest{line: "GET /a HTTP/1.1", headers: shopHost}, "x", 20*time.Second); err == nil && status < 400 {
			t.Errorf("%s, plain text to the listener of TLS: %d; want a refusal", sample.name, status)
		}
	}
	if app.Reached() != 0 {
		t.Errorf("%d requests reached the application; want none", app.Reached())
	}
}
