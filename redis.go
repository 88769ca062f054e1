package koalagate

import (
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// RedisOptions are options of Redis beside its URL and prefix.
type RedisOptions struct {
	// Username and Password are those of Redis, if the URL has none.
	Username, Password string
	// SentinelUsername and SentinelPassword are those of the Sentinels.
	SentinelUsername, SentinelPassword string
	// TLS are the files for a URL that begins with rediss.
	TLS RedisTLS
	// FixedTag puts all counters of a Cluster with this prefix into one slot, so
	// that each call is one atomic step, all on one node. Otherwise the counters
	// of an identity share a slot.
	FixedTag bool
	// Client is used in place of the URL. The program closes it. It must not
	// repeat calls (MaxRetries -1), because a repeated call may count twice.
	Client goredis.UniversalClient
	// Budget is the longest time that a call may take; 0 means 100 ms. The
	// deadline of the caller, less 5 ms, bounds it too.
	Budget time.Duration
	// Batching is the way in which concurrent calls are sent; "" means
	// BatchScript.
	Batching Batching
	// NoCountPath sends calls that only take, on count rules alone, the general
	// way. The answers are the same; they cost Redis more.
	NoCountPath bool
	// Refusals is the number of refusals to remember, each for a second at most.
	// Calls that Redis would refuse again are not sent. 0 means 32 768; a negative
	// number remembers none.
	Refusals int
	// OnDamage is called for each key that holds no counters, because something
	// else wrote to it. Its counters restart. OnDamage is called by many goroutines,
	// must return at once, and its panics are ignored.
	OnDamage func(key string)
	// Linger is the time that Redis keeps a counter after its end; 0 means a
	// second. Only calls with times of their own that are behind the clock of
	// Redis, such as those of a replay, need more.
	Linger time.Duration
}

// RedisTLS names PEM files for connections with TLS. They are read for each new
// connection, so that a renewed certificate needs no restart.
type RedisTLS struct {
	// CA is the certificates of the authorities of Redis; "" for those of the
	// system.
	CA string
	// Cert and Key are the client certificate and its key; "" for none.
	Cert, Key string
	// ServerName is the name in the certificate of Redis; "" for the host of the
	// address. Sentinels and Clusters often name hosts by address.
	ServerName string
}

// Batching is the way in which concurrent calls are sent to Redis.
type Batching string

// The ways of batching. The answers are the same, but not the load on Redis.
const (
	BatchScript   Batching = "script"   // one script call for all calls that wait: the least work for Redis
	BatchPipeline Batching = "pipeline" // one round trip, with a script call per call
	BatchOff      Batching = "off"      // a round trip per call
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
		TLS:      redisconn.TLSFiles(r.TLS),
		FixedTag: r.FixedTag, Client: r.Client, Budget: r.Budget,
		Batching: redis.Batching(r.Batching), NoCountPath: r.NoCountPath, Refusals: r.Refusals,
		OnDamage: r.OnDamage, Linger: r.Linger,
	}
}
