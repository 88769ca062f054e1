package hostile_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// A client with many streams on many connections, which it may cancel at once, makes no
// check fail: at gateways that let requests pass then, none passes that koalagate refuses.
// The long form has the other gateways, too.
func TestHostileStreamsPassNoGateway(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := rig.Must(h.Stage.Koalagate(h.Released(), rig.RaceSettings, "--rules", h.File("rules.conf", hostileRules)))(t)
	app := h.App()
	h.OfferTLS("shop.example")
	blocked := rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: blocked.example"}
	for _, sample := range hostileSamples() {
		if !sample.FailsOpen && !*long {
			continue
		}
		e := rig.Entrance{HTTPSample: &sample, Gateway: sample.Start(h, app.Address, k), Transport: rig.Transports[3]}
		for _, cancels := range []bool{false, true} {
			before := app.Reached()
			rig.Concurrently(30, func(int) { e.Flood(blocked, 100, cancels) })
			status, err := 0, error(nil)
			isRefused := rig.BecomesTrue(func() bool {
				status, err = e.Send(blocked, "x", 20*time.Second)
				return status == http.StatusForbidden
			})
			if passed := app.Reached() - before; passed > 0 || !isRefused {
				t.Errorf("%s, with canceled streams %t: %d requests passed, and then one got %d, %v; want 0, and 403", sample.Name, cancels, passed, status, err)
			}
		}
	}
}
