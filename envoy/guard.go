package envoy

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// guard wraps every handler. Envoy takes an empty CheckResponse for permission to pass,
// so every failure must end as an error.
type guard struct {
	logger *slog.Logger
	watch  Watch
	// atDrain calls f when the server drains, unless cancel is called before. It
	// ends streams: a health watch would delay a drain forever.
	atDrain func(f func()) (cancel func() bool)
}

// errInternal is the error that callers receive for internal failures; the log has the
// details.
var errInternal = status.Error(codes.Internal, "koalagate: internal error; its log has the details")

func (g *guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	if g.watch.Begun != nil {
		g.watch.Begun()
	}
	defer g.end(info.FullMethod, &err) // after catch, which sets the error
	defer g.catch(info.FullMethod, &err)
	reply, err = handle(ctx, request)
	if err == nil && !isMessage(reply) {
		g.logger.Error("a gRPC handler returned neither a message nor an error", "method", info.FullMethod)
		return nil, errInternal
	}
	return reply, err
}

// end reports the end of a unary call.
func (g *guard) end(method string, err *error) {
	if g.watch.Ended != nil {
		g.watch.Ended(method, status.Code(*err))
	}
}

// isMessage reports whether reply is a message, as opposed to a nil pointer, which
// would be sent as an empty message, or a message in wire form that is not empty.
func isMessage(reply any) bool {
	if wire, ok := reply.([]byte); ok {
		return len(wire) > 0
	}
	m, ok := reply.(proto.Message)
	return ok && m.ProtoReflect().IsValid()
}

func (g *guard) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer g.catch(info.FullMethod, &err)
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer g.atDrain(cancel)()
	return handle(service, &endingStream{stream, ctx})
}

// endingStream is a stream whose context also ends when the server drains.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // gRPC reads the context from the stream
}

// Context returns the context of the stream.
func (s *endingStream) Context() context.Context { return s.ctx }

// catch turns a panic of the handler into an error. It must be deferred
// directly.
func (g *guard) catch(method string, err *error) {
	if r := recover(); r != nil {
		g.logger.Error("a gRPC handler panicked", "method", method, "panic", r, "stack", string(debug.Stack()))
		*err = errInternal
	}
}
