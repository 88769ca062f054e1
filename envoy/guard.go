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

// guard stands around every handler. Envoy takes an empty CheckResponse for
// leave to pass, so whatever goes wrong must end as an error.
type guard struct {
	logger *slog.Logger
	// atDrain has f called when the front drains, unless forget comes first.
	// It is for streams: a health watch would hold up a drain for ever.
	atDrain func(f func()) (forget func() bool)
}

// errInternal is all that a caller learns of a fault; the log has the rest.
var errInternal = status.Error(codes.Internal, "koalagate: internal error; its log has the details")

func (g *guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	defer g.catch(info.FullMethod, &err)
	reply, err = handle(ctx, request)
	if err == nil && !isMessage(reply) {
		g.logger.Error("a gRPC handler returned neither a message nor an error", "method", info.FullMethod)
		return nil, errInternal
	}
	return reply, err
}

// isMessage tells whether reply is a message and not a nil pointer, which
// would be sent as an empty one, or a message in wire form that says anything.
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

// endingStream is a stream whose context also ends when the front drains.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc asks a stream for its context
}

// Context is the stream's context.
func (s *endingStream) Context() context.Context { return s.ctx }

// catch turns a panic of the handler into an error. It must be deferred
// directly.
func (g *guard) catch(method string, err *error) {
	if r := recover(); r != nil {
		g.logger.Error("a gRPC handler panicked", "method", method, "panic", r, "stack", string(debug.Stack()))
		*err = errInternal
	}
}
