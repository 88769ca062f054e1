package envoygateway_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"os"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	_ "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3" // the type of the resources
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// recorded is where the test of cmd/koalagate finds the exchange: the responses of each stream.
const recorded = "../../cmd/koalagate/testdata/envoy-gateway.json"

// recorder is a second client of Envoy Gateway's limits. A nil recorder records nothing.
type recorder struct {
	stage   *stage
	stop    context.CancelFunc
	ended   chan struct{}
	mu      sync.Mutex
	streams [][]json.RawMessage
}

// record begins to record, if the test shall.
func (s *stage) record() *recorder {
	s.Helper()
	if !*update {
		return nil
	}
	of := func(file string) string { return s.gateway.Certificate("envoy-rate-limit", file) }
	pair := rig.Must(tls.LoadX509KeyPair(of("tls.crt"), of("tls.key")))(s.T)
	conn := rig.Must(grpc.NewClient(e2e.EnvoyGatewayXDS, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true,
	}))))(s.T)
	ctx, cancel := context.WithCancel(s.Context())
	r := &recorder{stage: s, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer conn.Close()
		for ctx.Err() == nil {
			r.stream(ctx, conn)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return r
}

// stream records the responses of one stream, and accepts them.
func (r *recorder) stream(ctx context.Context, conn *grpc.ClientConn) {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return
	}
	request := &discoveryv3.DiscoveryRequest{
		Node: &corev3.Node{Id: "envoy-ratelimit"}, TypeUrl: "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig",
	}
	var responses []json.RawMessage
	for stream.Send(request) == nil {
		response, err := stream.Recv()
		if err != nil {
			break
		}
		text, err := protojson.Marshal(response)
		if err != nil {
			r.stage.Errorf("a response that is not recorded: %v", err)
			break
		}
		responses = append(responses, text)
		request.VersionInfo, request.ResponseNonce = response.GetVersionInfo(), response.GetNonce()
	}
	if len(responses) > 0 {
		r.mu.Lock()
		r.streams = append(r.streams, responses)
		r.mu.Unlock()
	}
}

// save writes what was recorded.
func (r *recorder) save() {
	if r == nil {
		return
	}
	r.stop()
	<-r.ended
	text, err := json.MarshalIndent(r.streams, "", "  ")
	if err == nil {
		err = os.WriteFile(recorded, append(text, '\n'), 0o644)
	}
	if err != nil {
		r.stage.Fatal(err)
	}
}
