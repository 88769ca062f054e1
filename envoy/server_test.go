package envoy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/koalagate/koalagate/envoy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const serviceName = "envoy.service.auth.v3.Authorization"

// handler is an Authorization service whose method the test sets.
type handler func(context.Context) (*authv3.CheckResponse, error)

func (h handler) Check(ctx context.Context, _ *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return h(ctx)
}

func allow(context.Context) (*authv3.CheckResponse, error) {
	return &authv3.CheckResponse{HttpResponse: &authv3.CheckResponse_OkResponse{}}, nil
}

// front is a running server and a connection to it.
type front struct {
	*envoy.Server
	addr string
	conn *grpc.ClientConn
	log  *syncBuffer
}

// start runs a server until the end of the test. Tests may drain or stop it before.
func start(t *testing.T, o envoy.Options, h handler) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, l, dial(t, l.Addr().String()), o, h)
}

// startInMemory is like start but without the system's network, so that synctest can
// detect when all goroutines are blocked.
func startInMemory(t *testing.T, o envoy.Options, h handler) *front {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	conn := dial(t, "passthrough:front", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	return startOn(t, l, conn, o, h)
}

func startOn(t *testing.T, l net.Listener, conn *grpc.ClientConn, o envoy.Options, h handler) *front {
	t.Helper()
	f := &front{addr: l.Addr().String(), conn: conn, log: &syncBuffer{}}
	o.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	f.Server = envoy.NewServer(o)
	authv3.RegisterAuthorizationServer(f.Server, h)
	served := make(chan error, 1)
	go func() { served <- f.Serve(l) }()
	t.Cleanup(func() {
		f.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return f
}

func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (f *front) check(t *testing.T) (*authv3.CheckResponse, error) {
	return authv3.NewAuthorizationClient(f.conn).Check(deadline(t), &authv3.CheckRequest{})
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// syncBuffer is a log that a server writes while a test reads it.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestHandlerFailuresBecomeErrors(t *testing.T) {
	for name, test := range map[string]struct {
		handler handler
		logged  []string
	}{
		"panic":         {func(context.Context) (*authv3.CheckResponse, error) { panic("koala fell") }, []string{"koala fell", "server_test.go"}},
		"panic of nil":  {func(context.Context) (*authv3.CheckResponse, error) { panic(nil) }, []string{"nil"}},
		"no message":    {func(context.Context) (*authv3.CheckResponse, error) { return nil, nil }, []string{"neither a message nor an error"}},
		"runtime panic": {func(context.Context) (*authv3.CheckResponse, error) { return []*authv3.CheckResponse(nil)[0], nil }, []string{"index out of range"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, envoy.Options{}, test.handler)
			_, err := f.check(t)
			if status.Code(err) != codes.Internal {
				t.Fatalf("got %v; want the gRPC error Internal", err)
			}
			if strings.Contains(err.Error(), "koala fell") {
				t.Errorf("the caller received the details: %v", err)
			}
			for _, want := range test.logged {
				if !strings.Contains(f.log.String(), want) {
					t.Errorf("the log lacks %q:\n%s", want, f.log)
				}
			}
		})
	}
}

func TestPanicOfOneCallDoesNotAffectOthers(t *testing.T) {
	var calls atomic.Int32
	f := start(t, envoy.Options{}, func(ctx context.Context) (*authv3.CheckResponse, error) {
		if calls.Add(1) == 1 {
			panic("once")
		}
		return allow(ctx)
	})
	if _, err := f.check(t); err == nil {
		t.Fatal("the first call did not fail")
	}
	if _, err := f.check(t); err != nil {
		t.Fatalf("the second call failed: %v", err)
	}
}

func TestHandlerErrorsReachTheCaller(t *testing.T) {
	f := start(t, envoy.Options{}, func(context.Context) (*authv3.CheckResponse, error) {
		return nil, status.Error(codes.Unavailable, "the store is away")
	})
	if _, err := f.check(t); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "the store is away" {
		t.Fatalf("got %v; want the handler's own error", err)
	}
}

func TestHealthReportsTheServerAndItsServices(t *testing.T) {
	f := start(t, envoy.Options{}, allow)
	client := healthv1.NewHealthClient(f.conn)
	for _, service := range []string{"", serviceName} {
		reply, err := client.Check(deadline(t), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || reply.Status != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v; want SERVING", service, reply, err)
		}
	}
	if _, err := client.Check(deadline(t), &healthv1.HealthCheckRequest{Service: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("health of an unknown service: %v; want NotFound", err)
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	f := start(t, envoy.Options{}, allow)
	stream, err := reflectionv1.NewServerReflectionClient(f.conn).ServerReflectionInfo(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range reply.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	for _, want := range []string{serviceName, "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("reflection lists %q; want %s among them", names, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v; want EOF", err)
	}
}

func TestNegativeMaximumOfMessagesIsTheDefault(t *testing.T) {
	f := start(t, envoy.Options{MaxMessageBytes: -1}, allow)
	if _, err := f.check(t); err != nil {
		t.Error(err)
	}
}

func TestConnectionEndsAtItsMaximumAge(t *testing.T) {
	f := start(t, envoy.Options{MaxConnectionAge: 50 * time.Millisecond}, allow)
	if _, err := f.check(t); err != nil {
		t.Fatal(err)
	}
	if !f.conn.WaitForStateChange(deadline(t), connectivity.Ready) {
		t.Fatal("the connection is still there after 10 s; want it asked to end after 50 ms")
	}
	if _, err := f.check(t); err != nil {
		t.Fatalf("the call after the connection's end: %v; want a new connection", err)
	}
}
