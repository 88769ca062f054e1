package hostile_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Gateways treat the headers that a client names in Connection differently: its own
// headers, and the one that the sample sets when it authenticates.
func TestNamesInConnection(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.Authenticate("ann")
	k := h.Koalagate("--rules", h.File("rules.conf", rig.LimitedTo(1000)))
	app := rig.Must(h.Stage.Ledger())(t)
	plain := &e2e.App{Address: app.Address}
	// arrives sends a request that names both headers in Connection, and checks which of
	// them the application gets, or with which status it is refused.
	arrives := func(t *testing.T, g *e2e.Gateway, status int, user, own []string) {
		t.Helper()
		app.Take()
		got, err := rig.SendRaw(g, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-Trace: 1\r\nX-Own: 1\r\nConnection: close, X-User-Id, X-Own")
		if err != nil || got != status {
			t.Errorf("%d, %v; want %d", got, err, status)
		}
		entries := app.Take()["1"]
		if status != http.StatusOK {
			if len(entries) != 0 {
				t.Error("the request reached the application")
			}
			return
		}
		if len(entries) != 1 || !slices.Equal(entries[0].Header["X-User-Id"], user) || !slices.Equal(entries[0].Header["X-Own"], own) {
			t.Errorf("the application got %v; want the user %q and the client's own header %q", entries, user, own)
		}
	}
	ann, own := []string{"ann"}, []string{"1"}
	t.Run("GW-29 Envoy removes only the client's own headers", func(t *testing.T) {
		arrives(t, h.Envoy(plain, k), http.StatusOK, ann, nil)
	})
	rig.TestFact(t, 116, func(t *testing.T) { // nginx obeys no name
		arrives(t, h.Nginx(plain, k), http.StatusOK, ann, own)
		arrives(t, rig.NginxWith("nginx/accel.conf")(h, plain, k.HTTP), http.StatusOK, ann, own)
	})
	rig.TestFact(t, 154, func(t *testing.T) { // Caddy obeys all names; the sample refuses them
		arrives(t, rig.CaddyWith()(h, plain, k.HTTP), http.StatusBadRequest, nil, nil)
		arrives(t, rig.CaddyWith([2]string{"\t\trespond @odd_connection 400\n", ""})(h, plain, k.HTTP), http.StatusOK, nil, nil)
	})
	haproxy := rig.HAProxyWith()(h, plain, k.HTTP)
	rig.TestFact(t, 172, func(t *testing.T) { // HAProxy obeys no name
		arrives(t, haproxy, http.StatusOK, ann, own)
	})
	rig.TestFact(t, 173, func(t *testing.T) { // HAProxy passes on the client's trailers
		lines := "POST /a HTTP/1.1\r\nHost: shop.example\r\nX-Trace: 2\r\n" + haproxy.Authorization + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-User-Id: mallory"
		status, err := rig.SendRawFrom("127.0.0.1", haproxy, lines, 20*time.Second)
		entries := app.Take()["2"]
		if err != nil || len(entries) != 1 || !slices.Equal(entries[0].Header["X-User-Id"], ann) || entries[0].Trailer.Get("X-User-Id") != "mallory" {
			t.Errorf("%d, %v; the application got %v; want the user ann, and mallory in the trailer", status, err, entries)
		}
	})
}
