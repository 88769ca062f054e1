package envoy

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/internal/wire"
)

// silent is a call that reads any request.
type silent struct{}

func (silent) UnmarshalBinary([]byte) error           { return nil }
func (silent) Answer(context.Context) ([]byte, error) { return []byte("\x12\x00"), nil }
func (silent) End()                                   {}
func echo(stream grpc.ServerStream) error             { return read(stream, func() {}) }
func read(stream grpc.ServerStream, each func()) (err error) {
	var m wire.Message
	for err == nil {
		if err = stream.RecvMsg(&m); err == nil {
			each()
			err = stream.SendMsg(wire.NewReply(nil))
		}
	}
	return err
}

// serveStreams serves a call and a stream in wire form, and returns a connection to them.
func serveStreams(t *testing.T, o Options, handle func(grpc.ServerStream) error) *grpc.ClientConn {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	s := NewServer(o)
	s.RegisterWire(wire.NewService(&authv3.Authorization_ServiceDesc, func() wire.Call { return silent{} }))
	s.RegisterStreams(wire.NewStreams(&rlqsv3.RateLimitQuotaService_ServiceDesc, handle))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// sized returns a report of at least so many bytes.
func sized(size int) *rlqsv3.RateLimitQuotaUsageReports {
	return &rlqsv3.RateLimitQuotaUsageReports{Domain: string(make([]byte, size))}
}

// Calls and streams have maximums of their own.
func TestMessagesOverTheMaximumAreRejected(t *testing.T) {
	exceeded := make(chan Bound, 10)
	conn := serveStreams(t, Options{
		MaxMessageBytes: 1000, MaxStreamMessageBytes: 5 << 20,
		Exceeded: func(b Bound, _ net.Addr) { exceeded <- b },
	}, echo)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for size, want := range map[int]codes.Code{500: codes.OK, 2000: codes.ResourceExhausted, 6 << 20: codes.ResourceExhausted} {
		_, err := authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			ContextExtensions: map[string]string{"act": string(make([]byte, size))},
		}})
		if status.Code(err) != want {
			t.Errorf("a call with %d bytes: %v; want %v", size, err, want)
		}
	}
	for range 2 {
		if b := <-exceeded; b != BoundMessageSize {
			t.Errorf("exceeded %s; want %s", b, BoundMessageSize)
		}
	}
	if n := len(exceeded); n > 0 {
		t.Errorf("%d bounds more were exceeded", n)
	}
	for size, want := range map[int]codes.Code{2000: codes.OK, 4<<20 + 1: codes.OK, 6 << 20: codes.ResourceExhausted} {
		stream, err := rlqsv3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err = stream.Send(sized(size)); err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != want {
			t.Errorf("a message with %d bytes: %v; want %v", size, err, want)
		}
	}
}

// What a stream has read is no unfinished request, however much that is; what it has not read
// is one.
func TestReadMessagesAreNotUnfinished(t *testing.T) {
	const size = 100_000
	var conn *meteredConn
	held := make(chan int64, 1)
	client := serveStreams(t, Options{MaxUnfinished: 1 << 20, MaxUnfinishedTotal: 2 << 20}, func(stream grpc.ServerStream) error {
		conn = connOf(stream.Context())
		if streamID(stream.Context()) == 0 {
			t.Error("the stream has no number; gRPC has renamed the field that streamID reads")
		}
		return read(stream, func() { held <- conn.held.Load() })
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := rlqsv3.NewRateLimitQuotaServiceClient(client).StreamRateLimitQuotas(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 { // 5 MB
		if err := stream.Send(sized(size)); err != nil {
			t.Fatal(err)
		}
		if n := <-held; n != streamMemory {
			t.Fatalf("%d bytes are held after a message; want %d", n, streamMemory)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	conn.read(99, size) // not open
	conn.mu.Lock()
	conn.unfinished.set(1, arrival{memory: streamMemory + 4096, unread: size + 2*prefixBytes + 10})
	conn.settle(4096)
	conn.mu.Unlock()
	conn.read(1, size)
	if n := conn.held.Load(); n != streamMemory+4096 {
		t.Errorf("%d bytes are held while a part is unread; want %d", n, streamMemory+4096)
	}
}
