package envoy

import (
	"context"
	"reflect"

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
	s := &endingStream{ServerStream: stream, ctx: ctx, conn: connOf(ctx), id: streamID(ctx)}
	if s.conn != nil {
		s.conn.stay(s.id)
	}
	return handle(service, s)
}

// endingStream is a stream whose context also ends when the server drains.
type endingStream struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // gRPC reads the context from the stream
	conn *meteredConn    // nil for a connection without a meter
	id   uint32          // of the stream in HTTP/2; 0 if it is unknown
}

// RecvMsg receives a message. One in wire form no longer counts as unfinished.
func (s *endingStream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	if m, ok := message.(*wire.Message); ok && err == nil && s.conn != nil {
		s.conn.read(s.id, len(m.Content()))
	}
	return err
}

// streamID returns the number of a call's stream in HTTP/2, 0 if it is unknown: the meter
// then takes all messages of the stream for unfinished, and ends its connection in time.
// gRPC keeps the number in a field of its own.
func streamID(ctx context.Context) uint32 {
	stream := reflect.Indirect(reflect.ValueOf(grpc.ServerTransportStreamFromContext(ctx)))
	if stream.Kind() != reflect.Struct {
		return 0
	}
	if id := stream.FieldByName("id"); id.Kind() == reflect.Uint32 {
		return uint32(id.Uint())
	}
	return 0
}

// Context returns the context of the stream.
func (s *endingStream) Context() context.Context { return s.ctx }
