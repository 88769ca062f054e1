package envoy_test

import (
	"fmt"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// extAuthz returns the filter over gRPC, with further keys `key: value, …`.
func extAuthz(timeout, more string) string {
	return fmt.Sprintf(`{ name: envoy.filters.http.ext_authz, typed_config: { "@type": %sfilters.http.ext_authz.v3.ExtAuthz, transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate }%s }%s } }`,
		rig.TypeURL, rig.Optional("timeout: ", timeout), rig.Optional("", more))
}

// scripted is a rate_limits entry that sends the header X-Script, which selects the
// script of the stub.
const scripted = `{ actions: [ { request_headers: { header_name: x-script, descriptor_key: script } } ] }`
