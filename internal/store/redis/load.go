package redis

import (
	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// The faults of round trips.
const (
	tripTimeout    = "timeout"    // no reply within the time of the calls
	tripConnection = "connection" // Redis could not be reached, or ended the connection
	tripRedirect   = "redirect"   // a node of a Cluster named another one
	tripReply      = "reply"      // Redis replied with another error
)

// TripFaults lists the kinds of faults of round trips.
var TripFaults = []string{tripTimeout, tripConnection, tripRedirect, tripReply}

// tripFault returns the kind of fault of a round trip with this error; "" for nil.
func tripFault(err error) string {
	switch {
	case err == nil:
		return ""
	case goredis.HasErrorPrefix(err, "MOVED"), goredis.HasErrorPrefix(err, "ASK"):
		return tripRedirect
	case redisconn.TimedOut(err):
		return tripTimeout
	case redisconn.Unreachable(err):
		return tripConnection
	}
	return tripReply
}

// Load is the current load of a store in Redis.
type Load struct {
	Flying      int64 // round trips under way
	Waiting     int64 // decisions that wait for a round trip
	Idle        int64 // connections that no round trip uses
	Used        int64 // connections that round trips use
	Closed      int64 // connections that were closed since the start
	PoolTimeout int64 // round trips since the start that found no free connection in time
}

// AddPool adds the connections of a client.
func (l *Load) AddPool(c goredis.UniversalClient) {
	p := c.PoolStats()
	l.Idle += int64(p.IdleConns)
	l.Used += int64(p.TotalConns) - int64(p.IdleConns)
	l.Closed += int64(p.StaleConns)
	l.PoolTimeout += int64(p.Timeouts)
}

// Load returns the current load, without connections.
func (e *Evaluator) Load() Load { return Load{Flying: e.flying.Load(), Waiting: e.waiting.Load()} }

// Load returns the current load.
func (s *Store) Load() Load {
	l := s.evaluator.Load()
	l.AddPool(s.client)
	return l
}
