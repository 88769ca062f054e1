package envoy

import "google.golang.org/grpc/codes"

// Watch observes the calls of a front. Each function may be nil. They must return at
// once, and are called concurrently.
type Watch struct {
	// Begun is called when a unary call whose request has arrived begins.
	Begun func()
	// Ended is called when such a call ends, with its full method, such as
	// /grpc.health.v1.Health/Check, and its code. The method is always one that the
	// front serves.
	Ended func(method string, code codes.Code)
	// HandshakeFailed is called for each connection whose TLS handshake fails, for
	// example because its peer has no accepted certificate.
	HandshakeFailed func()
}
