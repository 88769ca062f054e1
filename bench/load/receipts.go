package main

import (
	"context"
	"fmt"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
)

// receiptsSection is the name of the section about receipts.
const receiptsSection = "Receipts: takes and settlements at the rate limit service"

// The subjects of the section about receipts.
const (
	noReceipt   = "a take"
	withReceipt = "a take with a receipt"
	andSettled  = "a take with a receipt, and its settlement"
)

// receipts measures what receipts cost at the rate limit service with Redis. A call of the
// last subject is a take and its settlement.
func (r *run) receipts(ctx context.Context) error {
	r.Chapter("Receipts", "")
	if !r.only.MatchString(receiptsSection) {
		return nil
	}
	s := section{name: receiptsSection, promised: true, traffic: traffic.Plain, load: load{callers: manyCallers}}
	for _, name := range []string{noReceipt, withReceipt, andSettled} {
		i, err := r.scene.koalagate(name, true)
		if err != nil {
			return err
		}
		if name == noReceipt {
			s.subjects = append(s.subjects, i.rateLimit())
		} else {
			s.subjects = append(s.subjects, i.receipts(name == andSettled))
		}
	}
	return r.section(ctx, &s)
}

// receipts returns the rate limit service with callers that settle their receipts if
// settles.
func (i *instance) receipts(settles bool) *subject {
	return i.door(func(ctx context.Context, _ traffic.Kind, callers int) ([]ask, func(), error) {
		return askSettled(ctx, i.grpc, callers, settles)
	})
}

// askSettled returns callers of a rate limit service that get a receipt with each answer,
// and settle it at once if settles.
func askSettled(ctx context.Context, address string, callers int, settles bool) ([]ask, func(), error) {
	return rateLimitCallers(ctx, address, traffic.Receipt, callers, func(ctx context.Context, client rlsv3.RateLimitServiceClient, reply *rlsv3.RateLimitResponse) error {
		receipt := traffic.ReceiptOf(reply)
		if receipt == "" {
			return fmt.Errorf("the rate limit service at %s answered without a receipt", address)
		}
		if !settles {
			return nil
		}
		_, err := client.ShouldRateLimit(ctx, traffic.Settlement(receipt))
		return err
	})
}

// comparedReceipts adds what receipts cost.
func (r *run) comparedReceipts() {
	of := func(name string) *figures { return r.figures(receiptsSection, name) }
	settling := ratio(of(andSettled), of(withReceipt), totalCPU)
	if settling != nil {
		settling = &stats.Value{Median: settling.Median - 1, Least: settling.Least - 1, Most: settling.Most - 1}
	}
	r.Figure("a take with a receipt, service and Redis CPU relative to one without", ratio(of(withReceipt), of(noReceipt), totalCPU))
	r.Figure("a settlement, service and Redis CPU relative to its take", settling)
}
