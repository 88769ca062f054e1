package e2e_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

func caddyWith(pairs ...[2]string) func(*fixture, *e2e.App, ...string) *e2e.Gateway {
	return func(h *fixture, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return must(h.stage.Caddy(app.Address, koalagate, pairs...))(h.T)
	}
}

// caddyFailsClosed replaces the condition of the sample's block that lets requests
// through if koalagate is down with one that never holds.
var caddyFailsClosed = [2]string{"`{http.error.status_code} in [502, 503, 504]`", "`{http.error.status_code} == 599`"}

func TestCaddy(t *testing.T) {
	d := &door{first: 141, open: caddyWith(), shut: caddyWith(caddyFailsClosed), down: []int{502, 503, 504}}
	d.run(t)
}
