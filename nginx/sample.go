package nginx

import _ "embed" // for the samples

// The samples of nginx: with auth_request, and without it.
var (
	//go:embed nginx.conf
	sample string
	//go:embed accel.conf
	accelSample string
)

// Sample returns the configuration of nginx with auth_request, for examples/gateway.conf.
func Sample() string { return sample }

// AccelSample returns the configuration of nginx without auth_request, for
// examples/gateway.conf.
func AccelSample() string { return accelSample }
