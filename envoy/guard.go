package envoy

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/wire"
)

// guard surrounds the handlers of generated services, health and reflection. Services on
// messages in wire form are surrounded by the wire.Guard in it.
type guard struct {
	wire.Guard
	// atDrain calls f when the server drains, unless cancel is called before. It
	// ends streams: a health watch would delay a drain forever.
	atDrain func(f func()) (cancel func() bool)
}

func (g *guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	g.Begin()
	defer g.End(info.FullMethod, &err)
	reply, err = handle(ctx, request)
	if err == nil && !isMessage(reply) {
		return nil, g.Empty(info.FullMethod)
	}
	return reply, err
}

// isMessage reports whether reply is a message, as opposed to a nil pointer, which
// would be sent as an empty message.
func isMessage(reply any) bool {
	m, ok := reply.(proto.Message)
	return ok && m.ProtoReflect().IsValid()
}

func (g *guard) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = g.Panicked(info.FullMethod, r)
		}
	}()
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
