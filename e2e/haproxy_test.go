package e2e_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

func haproxyWith(pairs ...[2]string) func(*fixture, *e2e.App, ...string) *e2e.Gateway {
	return func(h *fixture, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return must(h.stage.HAProxy(app.Address, koalagate, pairs...))(h.T)
	}
}

func TestHAProxy(t *testing.T) {
	d := &door{
		first: 161,
		open:  haproxyWith(),
		shut:  haproxyWith([2]string{"#http-request deny deny_status 503", "http-request deny deny_status 503"}),
		down:  []int{503},
	}
	d.run(t)
}
