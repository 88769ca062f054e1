package rig

import (
	"github.com/koalagate/koalagate/e2e"
)

const quotaSample = "envoy/envoy-quota.yaml"

// QuotaEnvoy starts the sample of the quota filter as the Envoy with this name.
func QuotaEnvoy(h *Fixture, name, app string, instances []*e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.EnvoySample(quotaSample, quotaPairs(name, app, "0", instances, pairs)...))(h.T)
}

// HotQuotaEnvoy does the same at a port, with an Envoy that takes over from the one of the last
// epoch, which begins at 0.
func HotQuotaEnvoy(h *Fixture, name, app, port string, epoch int, instances []*e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	const base = 4611 // no other test restarts an Envoy
	return Must(h.Stage.HotEnvoySample(quotaSample, base, epoch, quotaPairs(name, app, port, instances, pairs)...))(h.T)
}

// quotaPairs returns the replacements in the sample, and further ones.
func quotaPairs(name, app, port string, instances []*e2e.Koalagate, pairs [][2]string) [][2]string {
	return append([][2]string{
		{"port_value: 9901 ", "port_value: 0 "},
		{"port_value: 10000 ", "port_value: " + port + " "},
		{"port_value: 8000 ", "port_value: " + Port(app) + " "},
		{"value: edge-1 ", "value: " + name + " "},
		grpcEndpoints(instances),
	}, pairs...)
}
