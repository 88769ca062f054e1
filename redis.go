package koalagate

import (
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// RedisOptions are the options of Redis other than its URL and prefix.
type RedisOptions struct {
	// Username and Password are the credentials for Redis, if the URL has none.
	Username, Password string
	// SentinelUsername and SentinelPassword are the credentials for the Sentinels.
	SentinelUsername, SentinelPassword string
	// TLS names the files for a URL that begins with rediss.
	TLS RedisTLS
	// FixedTag puts all counters with this prefix into one slot of a Cluster. Each
	// call is then one atomic step, and one node serves all of them. Otherwise only
	// the counters of one identity share a slot.
	FixedTag bool
	// Client is used instead of a connection to the URL. The program closes it. It
	// must not retry calls (MaxRetries -1), because a repeated call may count twice.
	Client goredis.UniversalClient
	// Budget is the maximum time of a call; 0 means 100 ms. A call also ends 5 ms
	// before the deadline of its context.
	Budget time.Duration
	// Batching selects how concurrent calls are sent; "" means BatchScript.
	Batching Batching
	// Refusals is the maximum number of refusals to remember, each for one second at
	// most. Calls that Redis would refuse again are not sent. 0 means 32,768; a
	// negative number disables this.
	Refusals int
	// Receipts is the maximum number of receipts of the program's own calls to remember:
	// these are settled in one call of Redis, others in two. 0 means 16,384; a negative
	// number disables this.
	Receipts int
	// OnDamage, if not nil, is called for each key that contains no valid counters
	// because another program wrote to it. Its counters restart. OnDamage is called
	// from many goroutines and must return at once; its panics are ignored.
	OnDamage func(key string)
	// OnLag, if not nil, is called with the lateness of the program's timers, 0 or more, up to
	// 500 times per second while Redis is in use: several milliseconds mean that
	// the program is short of CPU, and calls run out of time. OnLag must not
	// block.
	OnLag func(time.Duration)
	// OnRoundTrip, if not nil, is called after each round trip to Redis, with the time
	// that it took and the kind of its fault: "" for none, timeout, connection, redirect
	// (a node of a Cluster named another one) or reply. It is called from many
	// goroutines and must return at once.
	OnRoundTrip func(took time.Duration, fault string)
	// OnScript, if not nil, is called for each script call with the number of decisions
	// in it. It is called from many goroutines and must return at once.
	OnScript func(decisions int)
	// Linger is the time for which Redis keeps a counter after its end; 0 means one
	// second. Only calls that set engine.Call.Now to a time before the clock of
	// Redis, such as the calls of a replay, need more.
	Linger time.Duration
}

// RedisTLS names PEM files for connections with TLS. They are read for each new
// connection, so that a renewed certificate needs no restart.
type RedisTLS struct {
	// CA is the file with the certificates of the authorities for Redis; "" for the
	// authorities of the system.
	CA string
	// Cert and Key are the files with the client certificate and its key; "" for none.
	Cert, Key string
	// ServerName is the name in the certificate of Redis; "" for the host of the
	// address. Sentinels and Clusters often name hosts by address.
	ServerName string
}

// Batching selects how concurrent calls are sent to Redis.
type Batching string

// The batching modes. They give the same answers and differ in the load on Redis.
const (
	BatchScript   Batching = "script"   // one script call for all waiting calls: the lowest load on Redis
	BatchPipeline Batching = "pipeline" // one round trip for all waiting calls, with one script call each
	BatchOff      Batching = "off"      // one round trip per call
)

// redis returns the options of the store in Redis, or nil for none.
func (o *Options) redis() *redis.Options {
	if !o.hasRedis() {
		return nil
	}
	r := &o.RedisOptions
	return &redis.Options{
		URL: o.Redis, Prefix: o.RedisPrefix,
		Username: r.Username, Password: r.Password,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		TLS:      redisconn.TLSFiles{CA: r.TLS.CA, Cert: r.TLS.Cert, Key: r.TLS.Key, ServerName: r.TLS.ServerName},
		FixedTag: r.FixedTag, Client: r.Client, Budget: r.Budget,
		Batching: redis.Batching(r.Batching), Refusals: r.Refusals, Receipts: r.Receipts,
		OnDamage: r.OnDamage, OnLag: r.OnLag, OnRoundTrip: r.OnRoundTrip, OnScript: r.OnScript, Linger: r.Linger,
	}
}
