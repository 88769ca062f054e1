package rig

import (
	"github.com/koalagate/koalagate/e2e"
)

// QuotaEnvoy starts the sample of the quota filter as the Envoy with this name.
func QuotaEnvoy(h *Fixture, name, app string, instances []*e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.EnvoySample("envoy/envoy-quota.yaml", append(pairs,
		[2]string{"port_value: 9901 ", "port_value: 0 "},
		[2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + Port(app) + " "},
		[2]string{"value: edge-1 ", "value: " + name + " "},
		grpcEndpoints(instances))...))(h.T)
}
