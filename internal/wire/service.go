package wire

import (
	"context"
	"encoding"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Front is a gRPC server whose codec leaves the messages of a Service in wire form:
// it reads a request with its UnmarshalBinary method, and sends what NewReply returned
// as it is. envoy.Server is one. grpc.Server is not: its codec fails on such
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
func NewService[C Call](generated *grpc.ServiceDesc, begin func() C) *Service {
	s := &Service{begin: func() Call { return begin() }}
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

// Incoming is a Call whose request the codec of a front reads. A codec that returned an error
// for a request that is too large would have gRPC send the code of an internal one.
type Incoming struct {
	Call
	isTooLarge bool
}

// Refuse refuses the request because it is too large.
func (i *Incoming) Refuse() { i.isTooLarge = true }

var incoming = sync.Pool{New: func() any { return new(Incoming) }}

var errTooLarge = status.Error(codes.ResourceExhausted, "the request is larger than the maximum")

// read reads the request of a call. A panic of its reader ends the call alone.
func (s *Service) read(call Call, decode func(any) error) (err error) {
	defer s.guard.unpanic(s.method, &err)
	in := incoming.Get().(*Incoming)
	in.Call, in.isTooLarge = call, false
	err = decode(in)
	if err == nil && in.isTooLarge {
		err = errTooLarge
	}
	in.Call = nil
	incoming.Put(in)
	return err
}

// handle is what gRPC calls. It copies the reply, because gRPC sends it after the call has
// ended.
func handle(service any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (reply any, err error) { //nolint:revive // grpc defines the order
	s := service.(*Service)
	call := s.begin()
	defer call.End()
	if err := s.read(call, decode); err != nil {
		s.guard.unread(err)
		return nil, err
	}
	s.guard.Begin()
	defer s.guard.End(s.method, &err)
	answer, err := call.Answer(afterArrival(ctx))
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 {
		return nil, s.guard.Empty(s.method)
	}
	return NewReply(answer), nil
}

type arrivalKey struct{}

// WithArrivalTimeout returns the context of a call whose request must arrive within a time. The
// answer of a Service may take longer.
func WithArrivalTimeout(ctx context.Context, timeout time.Duration) context.Context {
	limited, cancel := context.WithTimeout(ctx, timeout) //nolint:gosec // gRPC cancels the parent when the call ends
	_ = cancel
	return context.WithValue(limited, arrivalKey{}, ctx)
}

// afterArrival returns the context of a call whose request has arrived.
func afterArrival(ctx context.Context) context.Context {
	if parent, ok := ctx.Value(arrivalKey{}).(context.Context); ok {
		return parent
	}
	return ctx
}

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

// unpanic turns a panic while a request is read into an error. It must be deferred directly.
func (g *Guard) unpanic(method string, err *error) {
	if r := recover(); r != nil {
		*err = g.Panicked(method, r)
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
