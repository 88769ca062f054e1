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
	method      string // the full name, such as /grpc.health.v1.Health/Check
	begin       func() Call
	guard       *Guard
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
	s.method = "/" + generated.ServiceName + "/" + method
	return s
}

// Describe returns the description to register the service with at a front, whose guard
// surrounds each call. The handlers expect the codec that Front describes, and run no
// interceptor of the server.
func (s *Service) Describe(g *Guard) *grpc.ServiceDesc {
	s.guard = g
	return &s.description
}

// handle is what gRPC calls. It copies the reply, because gRPC sends it after the call has
// ended.
func handle(service any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (reply any, err error) { //nolint:revive // grpc defines the order
	s := service.(*Service)
	call := s.begin()
	defer call.End()
	if err := decode(call); err != nil {
		s.guard.unread(err)
		return nil, err
	}
	s.guard.Begin()
	defer s.guard.End(s.method, &err)
	answer, err := call.Answer(ctx)
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 {
		return nil, s.guard.Empty(s.method)
	}
	return bytes.Clone(answer), nil
}
