package envoy

import _ "embed" // for the samples

// The samples of Envoy: with ext_authz over gRPC, and over HTTP.
var (
	//go:embed envoy.yaml
	sample string
	//go:embed envoy-http.yaml
	httpSample string
)

// Sample returns the configuration of Envoy with ext_authz and the rate limit service over
// gRPC, for examples/gateway.conf.
func Sample() string { return sample }

// HTTPSample returns the configuration of Envoy with ext_authz over HTTP, for
// examples/gateway.conf.
func HTTPSample() string { return httpSample }
