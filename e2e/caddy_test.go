package e2e_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

func caddyWith(pairs ...[2]string) func(*house, *e2e.App, ...string) *e2e.Gateway {
	return func(h *house, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return must(h.stage.Caddy(app.Address, koalagate, pairs...))(h.T)
	}
}

// caddyFailsOpen is the block of the sample that lets through what cannot be
// asked about, and the same block without that.
var caddyFailsOpen = [2]string{"`{http.error.status_code} in [502, 503, 504]`", "`{http.error.status_code} == 599`"}

func TestCaddy(t *testing.T) {
	d := &door{first: 141, open: caddyWith(), shut: caddyWith(caddyFailsOpen), down: []int{502, 503, 504}}
	d.tell(t)
}
