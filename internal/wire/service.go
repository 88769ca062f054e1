package wire

import (
	"bytes"
	"context"
	"encoding"

	"google.golang.org/grpc"
)

// Front is a gRPC server whose codec leaves the messages of a Service in wire form:
// it reads a request with its UnmarshalBinary method and sends a reply that is
// []byte as it is. envoy.Server is one. grpc.Server is not: its codec fails on such
// messages, so it lacks the method.
type Front interface {
	RegisterWire(s *Service)
}

// Call is one call of a Service. It reads its own request.
type Call interface {
	encoding.BinaryUnmarshaler
	// Answer returns the reply in wire form, which is valid until End.
	Answer(ctx context.Context) ([]byte, error)
	// End releases the call. The service calls it once, after everything else.
	End()
}

// Service is a gRPC service with one unary method on messages in wire form.
type Service struct {
	description grpc.ServiceDesc
	info        grpc.UnaryServerInfo // the same for every call
	begin       func() Call
	unread      func(error) // see OnUnread; may be nil
}

// NewService returns a service with the names of a generated service description,
// which has one method. It calls begin for every call.
func NewService(generated *grpc.ServiceDesc, begin func() Call) *Service {
	s := &Service{begin: begin}
	method := generated.Methods[0].MethodName
	s.description = grpc.ServiceDesc{
		ServiceName: generated.ServiceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: method, Handler: handle}},
		Metadata:    generated.Metadata,
	}
	s.info = grpc.UnaryServerInfo{Server: s, FullMethod: "/" + generated.ServiceName + "/" + method}
	return s
}

// OnUnread sets a function that is called with the error of each request that did not
// arrive, or that its call could not read. It must be called before the first call.
func (s *Service) OnUnread(f func(error)) { s.unread = f }

// Description returns the description to register the service with. Its handlers
// expect the codec that Front describes.
func (s *Service) Description() *grpc.ServiceDesc { return &s.description }

// handle is what gRPC calls.
func handle(service any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc defines the order
	s := service.(*Service)
	call := s.begin()
	defer call.End()
	if err := decode(call); err != nil {
		if s.unread != nil {
			s.unread(err)
		}
		return nil, err
	}
	if intercept == nil {
		return answer(ctx, call)
	}
	return intercept(ctx, call, &s.info, answer)
}

// answer copies the reply, because gRPC sends it after the call has ended.
func answer(ctx context.Context, call any) (any, error) {
	reply, err := call.(Call).Answer(ctx)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(reply), nil
}
