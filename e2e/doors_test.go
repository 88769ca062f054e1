package e2e_test

import "github.com/koalagate/koalagate/e2e"

func (h *house) accel(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.NginxSample("nginx/accel.conf", app.Address, addressesOf(instances)))(h.T)
}

func (h *house) caddy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.Caddy(app.Address, addressesOf(instances)))(h.T)
}

func (h *house) haproxy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.HAProxy(app.Address, addressesOf(instances)))(h.T)
}

func addressesOf(instances []*e2e.Koalagate) []string {
	addresses := make([]string, len(instances))
	for i, k := range instances {
		addresses[i] = k.HTTP
	}
	return addresses
}
