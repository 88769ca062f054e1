package envoygateway_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// settings are Envoy Gateway's own. The name of Redis stays unused: koalagate has its own.
const settings = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: { controllerName: gateway.envoyproxy.io/gatewayclass-controller }
provider:
  type: Custom
  custom:
    resource: { type: File, file: { paths: [ DIR/resources ] } }
    infrastructure: { type: Host, host: { configHome: DIR/config, dataHome: DIR/data, stateHome: DIR/state, runtimeDir: DIR/run } }
logging: { level: { default: info } }
extensionApis: { enableBackend: true, enableEnvoyPatchPolicy: true }
rateLimit: { failClosed: true, timeout: 10s, backend: { type: Redis, redis: { url: "localhost:6379" } } }
`

// resources are a listener at port 8888 before an application. Envoy Gateway names the rate
// limit service and its authority as in Kubernetes: the patch replaces both.
const resources = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: eg }
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: { group: gateway.envoyproxy.io, kind: EnvoyProxy, name: proxy, namespace: default }
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: { name: proxy, namespace: default }
spec: { provider: { type: Host, host: { envoyVersion: "ENVOY" } } }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: eg, namespace: default }
spec:
  gatewayClassName: eg
  listeners: [ { name: http, protocol: HTTP, port: 8888 } ]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: backend, namespace: default }
spec:
  parentRefs: [ { name: eg } ]
  rules:
  - matches: [ { path: { type: PathPrefix, value: / } } ]
    backendRefs: [ { group: gateway.envoyproxy.io, kind: Backend, name: backend } ]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: { name: backend, namespace: default }
spec: { endpoints: [ { ip: { address: 127.0.0.1, port: APP } } ] }
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyPatchPolicy
metadata: { name: ratelimit, namespace: default }
spec:
  targetRef: { group: gateway.networking.k8s.io, kind: Gateway, name: eg }
  type: JSONPatch
  jsonPatches:
  - type: type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: ratelimit_cluster
    operation: { op: replace, path: /transport_socket/typed_config/common_tls_context/validation_context/trusted_ca/filename, value: DIR/config/certs/envoy/ca.crt }
  - type: type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: ratelimit_cluster
    operation: { op: replace, path: /load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value, value: LIMITER }
---
apiVersion: v1
kind: Secret
metadata: { name: envoy, namespace: envoy-gateway-system }
type: kubernetes.io/tls
data: { ca.crt: "CA", tls.crt: "CERT", tls.key: "KEY" }
`

// limits are a limit for each user and a limit of a path, with windows that do not end
// during the test.
const limits = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: { name: limit, namespace: default }
spec:
  targetRefs: [ { group: gateway.networking.k8s.io, kind: HTTPRoute, name: backend } ]
  rateLimit:
    type: Global
    global:
      rules:
      - clientSelectors: [ { headers: [ { name: x-user-id, type: Distinct } ] } ]
        limit: { requests: %d, unit: Year }
      - clientSelectors: [ { path: { type: Exact, value: /export } } ]
        limit: { requests: 1, unit: Year }
`

// authorization asks an instance with rules about the same route.
const authorization = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: { name: koalagate, namespace: default }
spec:
  appProtocols: [ gateway.envoyproxy.io/h2c ]
  endpoints: [ { ip: { address: 127.0.0.1, port: %s } } ]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: { name: koalagate, namespace: default }
spec:
  targetRefs: [ { group: gateway.networking.k8s.io, kind: HTTPRoute, name: backend } ]
  extAuth:
    failOpen: false
    timeout: 10s
    grpc: { backendRefs: [ { group: gateway.envoyproxy.io, kind: Backend, name: koalagate, port: %s } ] }
`

// rules limit each user to eight requests.
const rules = `
[params]
uid : header X-User-Id
[rules]
rule : [count] [uid=+] [time=86400; count=8] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// url is the listener of the resources.
const url = "http://127.0.0.1:8888"

// stage is a running Envoy Gateway with koalagate in the place of its rate limit service.
type stage struct {
	*rig.Fixture
	gateway *e2e.EnvoyGateway
	limits  *e2e.Koalagate
	redis   *e2e.Redis
}

// Limits, changed limits, a restart of Envoy Gateway, an absent Redis, and rules on the same
// route, with certificates required in both directions.
func TestEnvoyGateway(t *testing.T) {
	if !*long || !isInOwnNetwork(t) {
		return
	}
	h := rig.NewFixture(t)
	s := start(h)
	record := s.record()

	s.follows("ann", 3)
	rig.WantStatus(t, 200, "GET", url+"/export")
	rig.WantStatus(t, 429, "GET", url+"/export")
	s.refusesStrangers()

	// The hits so far stay counted: three of them were admitted, and two refused.
	s.apply("limits.yaml", fmt.Sprintf(limits, 6))
	s.has("requests_per_unit=6")
	rig.WantStatus(t, 200, "GET", url+"/", "X-User-Id: ann")
	rig.WantStatus(t, 429, "GET", url+"/", "X-User-Id: ann")

	// Without Envoy Gateway the limits stay; its versions then begin again at 1.
	rig.Must(0, s.gateway.Stop())(t)
	s.has("requests_per_unit=6")
	if code := s.ask(s.certificate(), "bob"); code != codes.OK {
		t.Errorf("a call without Envoy Gateway: %v", code)
	}
	s.apply("limits.yaml", fmt.Sprintf(limits, 4))
	rig.Must(0, s.gateway.Start())(t)
	s.has("requests_per_unit=4")
	s.routes()
	s.follows("eve", 4)
	record.save()

	rig.Must(0, s.redis.Stop())(t)
	s.follows("joe", 4)

	// Rules on the same route: each of the eight requests of a user meets the limits, too.
	k := h.Koalagate("--rules", h.File("rules.conf", rules))
	s.apply("limits.yaml", fmt.Sprintf(limits, 20))
	s.has("requests_per_unit=20")
	s.apply("authorization.yaml", fmt.Sprintf(authorization, rig.Port(k.GRPC), rig.Port(k.GRPC)))
	rig.Must(0, s.gateway.Until(func() error { // other users than below
		r, err := rig.TrySend("GET", url+"/", "X-User-Id: probe")
		if err == nil && r.Header.Get("X-Koala-Rule") == "" {
			err = fmt.Errorf("the rules do not refuse yet: %d %v", r.Status, r.Header)
		}
		return err
	}))(t)
	for i := range 8 {
		if r := rig.WantStatus(t, 200, "GET", url+"/", "X-User-Id: kim"); !strings.HasPrefix(r.Header.Get("X-Ratelimit-Limit"), "20, ") {
			t.Errorf("request %d: %v; want the limits, too", i, r.Header)
		}
	}
	r := rig.WantStatus(t, 429, "GET", url+"/", "X-User-Id: kim")
	rig.WantHeader(t, r.Header, "Content-Type", "application/problem+json")
	rig.WantHeader(t, r.Header, "X-Koala-Rule", "201")
	if r.Header.Get("Retry-After") == "" || r.Header.Get("X-Ratelimit-Limit") != "" {
		t.Errorf("a refusal by the rules: %v", r.Header)
	}
	rig.Must(0, k.Stop())(t) // fails closed
	rig.WantStatus(t, http.StatusForbidden, "GET", url+"/", "X-User-Id: lea")
}

// start starts everything, and waits until Envoy routes and koalagate has the limits.
func start(h *rig.Fixture) *stage {
	h.Helper()
	s := &stage{Fixture: h, redis: h.Redis(), gateway: rig.Must(h.Stage.EnvoyGateway(settings))(h.T)}
	of := func(file string) string { return s.gateway.Certificate("envoy-rate-limit", file) }
	s.limits = rig.Must(h.Stage.RateLimit(rig.Binary, append(rig.RaceSettings[:len(rig.RaceSettings):len(rig.RaceSettings)],
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+e2e.EnvoyGatewayXDS, "CONFIG_GRPC_XDS_SERVER_TLS_SAN=envoy-gateway",
		"CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit", "CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT="+of("tls.crt"), "CONFIG_GRPC_XDS_CLIENT_TLS_KEY="+of("tls.key"), "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+of("ca.crt"),
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+of("tls.crt"), "GRPC_SERVER_TLS_KEY="+of("tls.key"), "GRPC_CLIENT_TLS_CACERT="+of("ca.crt"),
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=200ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=1s",
		"REDIS_URL="+s.redis.Address)...))(h.T)
	encoded := func(file string) string {
		return base64.StdEncoding.EncodeToString(rig.Must(os.ReadFile(s.gateway.Certificate("envoy", file)))(h.T))
	}
	s.apply("gateway.yaml", strings.NewReplacer(
		"ENVOY", s.gateway.EnvoyID, "APP", rig.Port(h.App().Address), "LIMITER", rig.Port(s.limits.GRPC),
		`"CA"`, encoded("ca.crt"), `"CERT"`, encoded("tls.crt"), `"KEY"`, encoded("tls.key")).Replace(resources))
	s.apply("limits.yaml", fmt.Sprintf(limits, 3))
	rig.Must(0, s.gateway.Start())(h.T)
	s.has("requests_per_unit=3")
	s.routes()
	return s
}

// apply writes resources of Envoy Gateway.
func (s *stage) apply(name, text string) {
	s.Helper()
	rig.Must(0, s.gateway.Apply(name, text))(s.T)
}

// has waits until the limits of koalagate have a text.
func (s *stage) has(text string) {
	s.Helper()
	rig.Must(0, s.limits.Until(func() error {
		page, err := s.limits.Page("/rlconfig")
		if err == nil && !strings.Contains(page, text) {
			err = fmt.Errorf("the limits are %q; want %q", page, text)
		}
		return err
	}))(s.T)
}

// routes waits until Envoy routes requests.
func (s *stage) routes() {
	s.Helper()
	rig.Must(0, s.gateway.Until(func() error {
		r, err := rig.TrySend("GET", url+"/")
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%d", r.Status)
		}
		return err
	}))(s.T)
}

// follows checks that a user has as many requests as the limit says.
func (s *stage) follows(user string, limit int) {
	s.Helper()
	for i := range limit + 2 {
		want := http.StatusOK
		if i >= limit {
			want = http.StatusTooManyRequests
		}
		r := rig.WantStatus(s.T, want, "GET", url+"/", "X-User-Id: "+user)
		if got := r.Header.Get("X-Ratelimit-Limit"); !strings.HasPrefix(got, fmt.Sprintf("%d, %d;w=", limit, limit)) {
			s.Errorf("X-Ratelimit-Limit is %q; want the limit %d", got, limit)
		}
	}
}

// certificate returns the certificate with which Envoy calls.
func (s *stage) certificate() credentials.TransportCredentials {
	s.Helper()
	pair := rig.Must(tls.LoadX509KeyPair(s.gateway.Certificate("envoy", "tls.crt"), s.gateway.Certificate("envoy", "tls.key")))(s.T)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
}

// ask returns the code of a call of the rate limit service for a user.
func (s *stage) ask(with credentials.TransportCredentials, user string) codes.Code {
	s.Helper()
	conn := rig.Must(grpc.NewClient(s.limits.GRPC, grpc.WithTransportCredentials(with)))(s.T)
	defer conn.Close()
	_, err := rig.ShouldRateLimit(rlsv3.NewRateLimitServiceClient(conn), rig.Descriptors("user", user))
	return status.Code(err)
}

// refusesStrangers checks that callers without a certificate of Envoy Gateway are refused.
func (s *stage) refusesStrangers() {
	s.Helper()
	for name, with := range map[string]credentials.TransportCredentials{
		"plain text": insecure.NewCredentials(), "no certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
	} {
		if code := s.ask(with, "mallory"); code != codes.Unavailable {
			s.Errorf("a call with %s: %v; want none", name, code)
		}
	}
	conn, err := tls.Dial("tcp", e2e.EnvoyGatewayXDS, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // TLS 1.3 refuses after the handshake
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		s.Errorf("Envoy Gateway and a client without a certificate: %v; want a refusal", err)
	}
}
