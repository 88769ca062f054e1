package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
)

// pace is the number of decisions per second of each caller.
const pace = 200

// maxWait is the maximum time of a decision.
const maxWait = 10 * time.Second

// callers returns the latencies of the callers of both doors during a time. Each
// decision must be an admission.
func callers(ctx context.Context, k *e2e.Koalagate, span time.Duration) (web, calls []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, span+maxWait)
	defer cancel()
	failed := make(chan error, 2)
	go func() { failed <- callWeb(ctx, k.HTTP, span, &web) }()
	go func() { failed <- callRateLimit(ctx, k.GRPC, span, &calls) }()
	first, second := <-failed, <-failed
	if first != nil {
		return nil, nil, first
	}
	return web, calls, second
}

// paced calls ask at the pace during a time. A call's latency starts when it is due, so
// that a slow answer delays those behind it.
func paced(span time.Duration, latencies *[]time.Duration, ask func(i int) error) error {
	const step = time.Second / pace
	begin := time.Now()
	for i, due := 0, begin; i == 0 || time.Since(begin) < span; i, due = i+1, due.Add(step) {
		time.Sleep(time.Until(due)) //nolint:forbidigo // the pace of a measurement
		if err := ask(i); err != nil {
			return err
		}
		*latencies = append(*latencies, time.Since(due))
	}
	return nil
}

func callWeb(ctx context.Context, address string, span time.Duration, latencies *[]time.Duration) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	in := bufio.NewReader(conn)
	return paced(span, latencies, func(i int) error {
		if _, err := fmt.Fprintf(conn, "GET /v1/auth-request?uid=%d HTTP/1.1\r\nHost: gate\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n"+
			"X-Real-IP: 198.51.100.7\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Proto: https\r\n\r\n", i); err != nil {
			return err
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			return fmt.Errorf("the answer to an HTTP check: %w", err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("an HTTP check: %s; want 200", answer.Status)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	})
}

func callRateLimit(ctx context.Context, address string, span time.Duration, latencies *[]time.Duration) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rlsv3.NewRateLimitServiceClient(conn)
	return paced(span, latencies, func(i int) error {
		answer, err := client.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{
			Domain:      "bench",
			Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "uid", Value: strconv.Itoa(i)}}}},
		})
		if err == nil && answer.GetOverallCode() != rlsv3.RateLimitResponse_OK {
			err = fmt.Errorf("a call of the rate limit service: %v; want OK", answer.GetOverallCode())
		}
		return err
	})
}
