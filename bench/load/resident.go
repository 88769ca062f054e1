package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/traffic"
)

const (
	residents = 1_000_000 // identities that each instance counts
	inCall    = 50        // identities of a call
)

// residentLater measures the resident memory of instances without Redis, one for each method: before
// the first call, when each has counted a million identities, and some time later, when Go has
// given back what it does not need.
func (o *options) residentLater(ctx context.Context, s *scene) error {
	t := report.Table{Columns: []string{"rule", "resident MB at the start", "when counted", fmt.Sprintf("%v later", o.later)}}
	var instances []*instance
	for _, m := range memories {
		if m.hits > 1 || len(traffic.Of(m.name)) > 1 {
			continue
		}
		i, row, err := s.counted(ctx, m.what, m.name)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		instances, t.Rows = append(instances, i), append(t.Rows, row)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(o.later):
	}
	for n, i := range instances {
		mb, err := residentOf(i.service)
		if err != nil {
			return err
		}
		t.Rows[n] = append(t.Rows[n], fmt.Sprintf("%.0f", mb))
	}
	p := o.report.Begin()
	p.Chapter("Resident memory", "")
	p.Add(report.Section{
		Name: fmt.Sprintf("With %d identities in process", residents), Text: "An instance for each rule.", Tables: []report.Table{t},
	})
	return o.report.End(p)
}

// counted starts an instance with the limit of a name, which then counts all identities once. It
// returns the row of its memory so far.
func (s *scene) counted(ctx context.Context, what, name string) (i *instance, row []string, err error) {
	rules := filepath.Join(s.dir, name+".conf")
	if err := os.WriteFile(rules, []byte(traffic.Rules(name)), 0o600); err != nil {
		return nil, nil, err
	}
	if i, err = s.koalagateOf(s.binary, rules, what, false, fmt.Sprintf("KOALAGATE_MAX_IDENTITIES=%d", 2*residents)); err != nil {
		return nil, nil, err
	}
	before, err := residentOf(i.service)
	if err != nil {
		return nil, nil, err
	}
	connections, end, err := dialAll(ctx, i.grpc, 1)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	client, descriptors := rlsv3.NewRateLimitServiceClient(connections[0]), make([]traffic.Descriptor, inCall)
	for first := 0; first < residents; first += inCall {
		for j := range descriptors {
			descriptors[j] = traffic.Descriptor{Name: name, Value: strconv.Itoa(1_000_000_000 + first + j)}
		}
		answer, err := client.ShouldRateLimit(ctx, traffic.RateLimitRequest(descriptors))
		if err != nil {
			return nil, nil, err
		}
		if answer.GetOverallCode() != rlsv3.RateLimitResponse_OK {
			return nil, nil, errors.New("an identity that is new was refused")
		}
	}
	after, err := residentOf(i.service)
	return i, []string{what, fmt.Sprintf("%.0f", before), fmt.Sprintf("%.0f", after)}, err
}
