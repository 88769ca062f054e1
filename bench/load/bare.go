package main

import (
	"context"
	"os"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/internal/store"
)

// bare returns a store without a service, called in this process: its CPU time is that
// of this program, including the callers.
func bare(name string, s store.Store, redis process.ID, redisAddress string) *subject {
	return &subject{
		name: name, service: process.ID(os.Getpid()), redis: redis, redisAddress: redisAddress,
		open: func(_ context.Context, t traffic.Kind, callers int) ([]ask, func(), error) {
			plans := make([]store.Plan, traffic.Identities)
			for i, descriptors := range t.Requests() {
				plans[i] = store.Plan{Op: store.Take, Zone: time.UTC}
				for _, d := range descriptors {
					plans[i].Sets = append(plans[i].Sets, traffic.Set(d))
				}
			}
			asks := make([]ask, callers)
			for i := range asks {
				next, answers := turns(i, callers), new(store.Answers)
				asks[i] = func(ctx context.Context) (bool, error) {
					if err := s.Evaluate(ctx, &plans[next()], answers); err != nil {
						return false, err
					}
					for j := range answers.Sets {
						if answers.Sets[j].Decider >= 0 {
							return true, nil
						}
					}
					return false, nil
				}
			}
			return asks, func() {}, nil
		},
	}
}
