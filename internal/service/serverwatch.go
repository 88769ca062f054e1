package service

import (
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/certificates"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/metrics"
)

// watchDoors returns the observer of the calls at the doors.
func watchDoors(m *metrics.Metrics) *door.Watch {
	m.WatchDoors(doorname.Served())
	return &door.Watch{Answered: m.Answered}
}

// watchFront returns the observer of the calls at the gRPC address.
func watchFront(m *metrics.Metrics) envoy.Watch {
	m.WatchRefusals(metrics.GRPC, "tls")
	return envoy.Watch{
		Begun:           func() { m.Begun(metrics.GRPC) },
		Ended:           func(method string, code codes.Code) { m.GRPCAnswered(method, code.String()) },
		HandshakeFailed: func() { m.PeerRefused(metrics.GRPC, "tls") },
	}
}

// refusedPeers returns a function that counts the requests that an address refuses for
// these reasons.
func refusedPeers(m *metrics.Metrics, a metrics.Address, reasons ...string) func(string) {
	m.WatchRefusals(a, reasons...)
	return func(reason string) { m.PeerRefused(a, reason) }
}

// watchConnections exports the connections of the addresses, and the expiry of their
// certificates.
func (s *Service) watchConnections(secured addressCertificates) {
	for address, l := range map[metrics.Address]net.Listener{metrics.GRPC: s.listeners.grpc, metrics.HTTP: s.listeners.http, metrics.Admin: s.listeners.admin} {
		s.metrics.WatchConnections(address, l.(*limitedListener).open)
	}
	for address, own := range map[metrics.Address]*certificates.Certificates{metrics.GRPC: secured.grpc, metrics.HTTP: secured.http, metrics.Admin: secured.admin} {
		if own != nil {
			s.metrics.WatchCertificate(address, own.NotAfter)
		}
	}
}

// answered is a handler that counts the requests of an address.
type answered struct {
	next    http.Handler
	address metrics.Address
	metrics *metrics.Metrics
	writers sync.Pool
}

func countAnswers(next http.Handler, a metrics.Address, m *metrics.Metrics) http.Handler {
	h := &answered{next: next, address: a, metrics: m}
	h.writers.New = func() any { return new(statusWriter) }
	return h
}

// ServeHTTP answers a request and counts it. A panic counts as the status that was sent.
func (h *answered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.writers.Get().(*statusWriter)
	s.ResponseWriter, s.status = w, http.StatusOK
	h.metrics.Begun(h.address)
	defer func() {
		h.metrics.HTTPAnswered(h.address, s.status)
		s.ResponseWriter = nil
		h.writers.Put(s)
	}()
	h.next.ServeHTTP(s, r)
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader sends the status.
func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer, for http.ResponseController.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
