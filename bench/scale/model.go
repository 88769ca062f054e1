package main

import (
	"fmt"
	"math"

	"github.com/koalagate/koalagate/bench/report"
)

// The assumptions of the model.
const (
	// modelSize is the number of instances on one Redis whose figures it uses.
	modelSize = 4
	// modelRate is the rate that the model is about, in decisions per second.
	modelRate = 1e6
	// modelBusy is the load of every processor and of every Redis.
	modelBusy = 0.5
	// serviceCPU is what the service takes per call with gRPC and the decision, in µs.
	serviceCPU = 40
)

// base is what the model begins with: CPU µs per decision.
type base struct {
	traffic          *traffic
	leases           bool
	instances, redis float64
}

// model adds what a fleet needs for modelRate.
func (r *results) model() {
	if len(r.bases) == 0 {
		return
	}
	t := report.Table{Columns: []string{"traffic", "processors of Go programs", "processors of the service", "Redis"}}
	for _, b := range r.bases {
		with := ", without leases"
		if b.leases {
			with = ", `lease=5%`"
		}
		t.Rows = append(t.Rows, []string{b.traffic.name + with, processors(b.instances), processors(serviceCPU), b.servers()})
	}
	r.Add(report.Section{
		Name: thousands(modelRate) + " decisions per second, on paper", Tables: []report.Table{t},
		Text: fmt.Sprintf(`From the figures of %d instances with one Redis above. Every processor and every Redis is %.0f %%
busy. The service takes %d µs per call for gRPC and the decision. One counter has one node.`, modelSize, 100*modelBusy, serviceCPU),
	})
}

// processors returns the number of processors that a decision of some µs needs.
func processors(micros float64) string {
	return fmt.Sprintf("%.0f", math.Ceil(modelRate*micros/1e6/modelBusy))
}

// servers describes the Redis that the traffic needs.
func (b *base) servers() string {
	nodes := modelRate * b.redis / 1e6 / modelBusy
	switch {
	case nodes <= 1:
		return fmt.Sprintf("one, %.0f %% busy", max(100*nodes*modelBusy, 1))
	case b.traffic.hot == 1:
		return fmt.Sprintf("none: one counter ends at %s per second", thousands(1e6/b.redis))
	case b.traffic.hot > 0 && !b.leases:
		return fmt.Sprintf("none: the node of the hot counter ends at %s per second in all", thousands(1e6/(b.redis*b.traffic.hot)))
	}
	return fmt.Sprintf("a Cluster of %.0f nodes", math.Ceil(nodes))
}
