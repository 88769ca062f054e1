package extauthz_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// noon is the time of all checks in ms since the epoch: half a day before the end of
// the day in UTC.
const noon = 1_795_262_400_000

// fixedStore returns a store in process whose clock stays at noon.
func fixedStore() *memory.Store {
	return memory.New(memory.Options{Clock: func() int64 { return noon }})
}

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatalf("the rules have errors: %v", findings)
	}
	return set
}

// open serves the door over an in-memory connection, with the rules in text and new
// counters.
func open(t testing.TB, text string, change func(*extauthz.Options)) authv3.AuthorizationClient {
	t.Helper()
	return openOn(t, fixedStore(), text, change)
}

func openOn(t testing.TB, s store.Store, text string, change func(*extauthz.Options)) authv3.AuthorizationClient {
	t.Helper()
	o := extauthz.Options{Engine: engine.New(parse(t, text), wiring.CountIn(s))}
	if change != nil {
		change(&o)
	}
	server := envoy.NewServer(envoy.Options{})
	extauthz.New(o).Register(server)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:door",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return authv3.NewAuthorizationClient(conn)
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// request parses a check from JSON.
func request(t testing.TB, json string) *authv3.CheckRequest {
	t.Helper()
	check := new(authv3.CheckRequest)
	if err := protojson.Unmarshal([]byte(json), check); err != nil {
		t.Fatalf("%v in %s", err, json)
	}
	return check
}

// about returns a check with context_extensions act and uid, and these headers.
func about(act string, headers map[string]string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Path: "/", Host: "shop.example", Scheme: "http", Headers: headers,
		}},
		ContextExtensions: map[string]string{"act": act, "uid": "ann"},
	}}
}

func ask(t testing.TB, door authv3.AuthorizationClient, check *authv3.CheckRequest) *authv3.CheckResponse {
	t.Helper()
	reply, err := door.Check(deadline(t), check)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	if fault := malformed(reply); fault != "" {
		t.Fatalf("%s: %v", fault, reply)
	}
	return reply
}

// slow is a store that answers after its caller's context ends.
type slow struct {
	storetest.Receiptless
	calls atomic.Int32
}

func (s *slow) Evaluate(ctx context.Context, _ *store.Plan, _ *store.Answers) error {
	s.calls.Add(1)
	<-ctx.Done()
	return ctx.Err()
}
