package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Address is the name of a listen address in metrics.
type Address string

// The listen addresses.
const (
	GRPC  Address = "grpc"
	HTTP  Address = "http"
	Admin Address = "admin"
)

var addresses = []Address{GRPC, HTTP, Admin}

// maxAnswers is the maximum number of series of answers per server: the methods and
// paths that a server knows, and the codes that it sends, are few.
const maxAnswers = 200

// servers are the metrics of the listen addresses and the doors.
type servers struct {
	calls    *prometheus.HistogramVec
	took     map[string]prometheus.Observer // by door
	grpc     *counters[grpcKey]
	http     *counters[httpKey]
	inFlight map[Address]*atomic.Int64
	refused  *prometheus.CounterVec
}

type grpcKey struct{ method, code string }

type httpKey struct {
	address Address
	code    int
}

func newServers(registry *prometheus.Registry) *servers {
	s := &servers{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "call_seconds",
			Help:    "Time of a call from its arrival at a door to its answer, by door.",
			Buckets: []float64{.000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25},
		}, []string{"door"}),
		took: make(map[string]prometheus.Observer),
		grpc: newCounters(opts("grpc_calls_total", "Unary calls at the gRPC address, by method and status code."),
			[]string{"method", "code"}, func(k grpcKey) []string { return []string{k.method, k.code} },
			maxAnswers, func(k grpcKey) grpcKey { return grpcKey{"other", k.code} }),
		http: newCounters(opts("http_requests_total", "Requests at the HTTP and the admin address, by address and status code."),
			[]string{"address", "code"}, func(k httpKey) []string { return []string{string(k.address), strconv.Itoa(k.code)} },
			maxAnswers, func(k httpKey) httpKey { return httpKey{k.address, 0} }),
		inFlight: make(map[Address]*atomic.Int64),
		refused:  prometheus.NewCounterVec(opts("refused_peers_total", "Requests and connections refused because of their peer, by address and reason: untrusted (not in trusted_proxies), token, host, web_page, content_type, unknown_path or tls."), []string{"address", "reason"}),
	}
	registry.MustRegister(s.calls, s.grpc.vec, s.http.vec, s.refused)
	s.grpc.add(grpcKey{"other", "OK"})
	for _, a := range []Address{HTTP, Admin} {
		s.http.add(httpKey{a, http.StatusOK})
	}
	for _, a := range addresses {
		n := new(atomic.Int64)
		s.inFlight[a] = n
		o := gauge("calls_in_flight", "Calls that are being answered, by address.")
		o.ConstLabels = prometheus.Labels{"address": string(a)}
		registry.MustRegister(prometheus.NewGaugeFunc(o, func() float64 { return float64(n.Load()) }))
	}
	return s
}

// Begun counts a call in progress at an address, until GRPCAnswered or HTTPAnswered counts
// its answer.
func (m *Metrics) Begun(a Address) { m.servers.inFlight[a].Add(1) }

// GRPCAnswered counts the answer to a unary call, with its full method and the name of
// its code, and decrements the calls in progress.
func (m *Metrics) GRPCAnswered(method, code string) {
	m.servers.inFlight[GRPC].Add(-1)
	m.servers.grpc.of(grpcKey{strings.TrimPrefix(method, "/"), code}).Inc()
}

// HTTPAnswered counts the answer to a request, and ends it.
func (m *Metrics) HTTPAnswered(a Address, status int) {
	m.servers.inFlight[a].Add(-1)
	m.servers.http.of(httpKey{a, status}).Inc()
}

// WatchRefusals exports the count of requests that an address refuses for these reasons.
func (m *Metrics) WatchRefusals(a Address, reasons ...string) {
	for _, reason := range reasons {
		m.servers.refused.WithLabelValues(string(a), reason)
	}
}

// PeerRefused counts a request or a connection that was refused because of its peer.
func (m *Metrics) PeerRefused(a Address, reason string) {
	m.servers.refused.WithLabelValues(string(a), reason).Inc()
}

// WatchConnections exports the number of open connections of an address. The function
// is called at every scrape.
func (m *Metrics) WatchConnections(a Address, open func() int) {
	o := gauge("connections", "Open connections, by address.")
	o.ConstLabels = prometheus.Labels{"address": string(a)}
	m.registry.MustRegister(prometheus.NewGaugeFunc(o, func() float64 { return float64(open()) }))
}

// WatchCertificate exports the expiry of the TLS certificate of an address. The
// function is called at every scrape.
func (m *Metrics) WatchCertificate(a Address, expiry func() time.Time) {
	o := gauge("tls_certificate_expiry_timestamp_seconds", "Time when the TLS certificate of an address expires.")
	o.ConstLabels = prometheus.Labels{"address": string(a)}
	m.registry.MustRegister(prometheus.NewGaugeFunc(o, func() float64 { return seconds(expiry()) }))
}

// Config describes the settings in metrics.
type Config struct {
	Hash  string // of all settings without secrets
	Store string // memory or redis
}

// Configured exports the settings; it must be called at most once.
func (m *Metrics) Configured(c Config) {
	o := gauge("config_info", "Always 1; instances with the same hash have the same settings, apart from secrets.")
	o.ConstLabels = prometheus.Labels{"hash": c.Hash, "store": c.Store}
	m.registry.MustRegister(prometheus.NewGaugeFunc(o, func() float64 { return 1 }))
}
