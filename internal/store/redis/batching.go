package redis

import "fmt"

// Batching is how the calls of many callers go to Redis.
type Batching string

// The values of Batching. The answers are the same; their cost is not.
const (
	// BatchScript carries all calls that gathered while the previous batch was
	// under way in one script call: the least work for Redis.
	BatchScript Batching = "script"
	// BatchPipeline sends the gathered calls in one round trip, each as a
	// script call of its own.
	BatchPipeline Batching = "pipeline"
	// BatchOff sends each call by itself.
	BatchOff Batching = "off"
)

// check returns an error if b is unknown. "" is valid.
func (b Batching) check() error {
	switch b {
	case "", BatchScript, BatchPipeline, BatchOff:
		return nil
	}
	return fmt.Errorf("redis batching %q: want %s, %s or %s", b, BatchScript, BatchPipeline, BatchOff)
}
