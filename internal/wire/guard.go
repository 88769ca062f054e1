package wire

import (
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Guard surrounds the unary calls of a front. Envoy takes an empty CheckResponse for
// permission to pass, so every failure must end as an error. Each function may be nil. They
// must return at once, and are called concurrently. A Guard without any, the zero value, logs
// to slog.Default.
type Guard struct {
	// Logger receives panics and empty replies. The default is slog.Default.
	Logger *slog.Logger
	// Begun is called when a call whose request has arrived begins.
	Begun func()
	// Ended is called when such a call ends, with its full method and its code.
	Ended func(method string, code codes.Code)
	// Unread is called with the error of each request that did not arrive, or that its
	// call could not read.
	Unread func(error)
}

// errInternal is the error that callers receive for internal failures; the log has the
// details.
var errInternal = status.Error(codes.Internal, "koalagate: internal error; its log has the details")

// Begin reports that a call begins.
func (g *Guard) Begin() {
	if g.Begun != nil {
		g.Begun()
	}
}

// End turns a panic of the call into an error, and reports the end of the call. It must be
// deferred directly.
func (g *Guard) End(method string, err *error) {
	if r := recover(); r != nil {
		*err = g.Panicked(method, r)
	}
	if g.Ended != nil {
		g.Ended(method, status.Code(*err))
	}
}

// Panicked logs what recover returned for a call, and returns the error of the call.
func (g *Guard) Panicked(method string, r any) error {
	g.logger().Error("a gRPC handler panicked", "method", method, "panic", r, "stack", string(debug.Stack()))
	return errInternal
}

// Empty logs a call without a message, and returns its error.
func (g *Guard) Empty(method string) error {
	g.logger().Error("a gRPC handler returned neither a message nor an error", "method", method)
	return errInternal
}

func (g *Guard) unread(err error) {
	if g.Unread != nil {
		g.Unread(err)
	}
}

func (g *Guard) logger() *slog.Logger {
	if g.Logger == nil {
		return slog.Default()
	}
	return g.Logger
}
