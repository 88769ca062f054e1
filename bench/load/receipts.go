package main

import (
	"context"
	"fmt"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// receiptsSection is the name of the section about receipts.
const receiptsSection = "Receipts: takes and settlements at the rate limit service"

// The subjects of the section about receipts.
const (
	noReceipt   = "a take"
	withReceipt = "a take with a receipt"
	andSettled  = "a take with a receipt, and its settlement"
)

// settled is traffic with receipts.
var settled = traffic{name: "one descriptor with a receipt, many identities", request: many("settled")}

// receipts measures what receipts cost at the rate limit service with Redis. A call of the
// last subject is a take and its settlement.
func (r *run) receipts(ctx context.Context) error {
	r.print("\n## Receipts\n")
	if !r.only.MatchString(receiptsSection) {
		return nil
	}
	s := section{name: receiptsSection, traffic: plain, load: load{callers: manyCallers}}
	for _, name := range []string{noReceipt, withReceipt, andSettled} {
		i, err := r.scene.koalagate(name, true)
		if err != nil {
			return err
		}
		open := func(ctx context.Context, _ traffic, callers int) ([]ask, func(), error) {
			return askSettled(ctx, i.grpc, callers, name == andSettled)
		}
		if name == noReceipt {
			s.subjects = append(s.subjects, i.rateLimit())
		} else {
			s.subjects = append(s.subjects, i.door(open))
		}
	}
	return r.section(ctx, &s)
}

// askSettled returns callers of a rate limit service that get a receipt with each answer,
// and settle it at once if settles.
func askSettled(ctx context.Context, address string, callers int, settles bool) ([]ask, func(), error) {
	return rateLimitCallers(ctx, address, settled, callers, func(ctx context.Context, client rlsv3.RateLimitServiceClient, reply *rlsv3.RateLimitResponse) error {
		receipt := reply.GetDynamicMetadata().GetFields()["receipt"].GetStringValue()
		if receipt == "" {
			return fmt.Errorf("the rate limit service at %s answered without a receipt", address)
		}
		if !settles {
			return nil
		}
		_, err := client.ShouldRateLimit(ctx, settlement(receipt))
		return err
	})
}

// settlement returns the request that settles a receipt with two hits, where one was
// estimated.
func settlement(receipt string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Entries:    []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "koala.receipt", Value: receipt}},
		HitsAddend: wrapperspb.UInt64(2),
	}}}
}

// goalsOfReceipts returns the goals of receipts.
func (r *run) goalsOfReceipts() []goal {
	of := func(name string) *figures { return r.figures(receiptsSection, name) }
	settling := ratio(of(andSettled), of(withReceipt), totalCPU)
	if settling != nil {
		settling = &value{settling.median - 1, settling.least - 1, settling.most - 1}
	}
	return []goal{
		{what: "a take with a receipt, service and Redis CPU relative to one without", got: ratio(of(withReceipt), of(noReceipt), totalCPU), must: 1.5, more: 1.3, atMost: true},
		{what: "… its settlement, relative to the take", got: settling, must: 1.2, more: 1, atMost: true},
	}
}
