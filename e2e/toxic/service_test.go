package toxic

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// serviceRules gives each descriptor the limit in its key.
const serviceRules = `
[rules]
rule : [count] [domain=toxic; l%d=+] [time=3600; count=%[1]d;] [result=2; return=1]
rule : [count] [domain=toxic; l%d=+] [time=3600; count=%[2]d;] [result=2; return=2]
rule : [count] [domain=toxic; l%d=+] [time=3600; count=%[3]d;] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// service is a koalagate process that is called over gRPC, as by Envoy's rate limit
// filter.
type service struct {
	t       *testing.T
	process *e2e.Koalagate
	client  rlsv3.RateLimitServiceClient
}

// optimizationsOff switches all optimizations off.
var optimizationsOff = []string{
	"KOALAGATE_REDIS_BATCHING=off", "KOALAGATE_REDIS_REFUSALS=0",
	"KOALAGATE_GRPC_STREAM_WORKERS=0", "KOALAGATE_GC_HEADROOM=0",
}

// startService starts the service with its default settings, or with all
// optimizations off.
func startService(t *testing.T, s *scene, binary string, off bool) *service {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, serviceRules, limit, noLimit, smallLimit), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"KOALAGATE_DRAIN_WAIT=0s"}
	if off {
		env = append(env, optimizationsOff...)
	}
	process, err := s.stage.Koalagate(binary, env, "--rules", file, "--redis", s.url())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(process.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &service{t: t, process: process, client: rlsv3.NewRateLimitServiceClient(conn)}
}

func (s *service) take(ctx context.Context, q request) (answer, error) {
	r, err := s.client.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "toxic", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: fmt.Sprintf("l%d", q.limit), Value: q.identity}},
	}}})
	if err != nil {
		return answer{}, err
	}
	return answer{
		admitted:  r.OverallCode == rlsv3.RateLimitResponse_OK,
		degraded:  r.DynamicMetadata.Fields["degraded"].GetBoolValue(),
		remaining: int64(r.Statuses[0].LimitRemaining),
	}, nil
}

func (s *service) degraded() bool {
	s.t.Helper()
	status, err := s.process.Readyz()
	if err != nil {
		s.t.Fatal(err)
	}
	return status.Store == "degraded"
}

func (s *service) goroutines() int { return int(s.metric("go_goroutines")) }

// metric returns a metric of the service.
func (s *service) metric(name string) float64 {
	s.t.Helper()
	resp, err := http.Get("http://" + s.process.Admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), name+" "); is {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return value
		}
	}
	s.t.Fatalf("missing metric %s", name)
	return 0
}

// The same faults with a service that is called over gRPC with Envoy's deadline of
// 20 ms.
func TestFaultsUnderLoadOfTheService(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "koalagate")
	builder, err := e2e.NewStage(t.TempDir())
	if err == nil {
		err = builder.Build(binary, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	eachFault(t, storetest.On, func(t *testing.T, s *scene, way storetest.Way) observed {
		o := startService(t, s, binary, way.Name == storetest.Off.Name)
		t.Cleanup(func() {
			if !strings.Contains(o.process.Log(), `"remedy"`) {
				t.Errorf("the log contains no remedy:\n%s", o.process.Log())
			}
		})
		return o
	})
}
