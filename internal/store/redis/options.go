package redis

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Options configure a store in Redis, on one server or a Cluster.
type Options struct {
	// URL, the credentials and TLS are documented at redisconn.Options. They are
	// ignored if there is a Client.
	URL                                string
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	TLS                                redisconn.TLSFiles
	// FixedTag puts all counters of a Cluster that have this prefix into one
	// slot: then each plan is one atomic step, and one node does all the work.
	// Otherwise the counters of an identity share a slot.
	FixedTag bool
	// Client replaces the store's own client; the caller closes it. It must
	// not repeat calls (MaxRetries -1): a call that was counted and not
	// answered would count twice.
	Client goredis.UniversalClient
	// Prefix begins every key; "" means DefaultPrefix. It has at most
	// MaxPrefix bytes of printable ASCII without braces.
	Prefix string
	// Budget bounds a call; 0 means DefaultBudget. A caller's own deadline,
	// less a margin, bounds it too.
	Budget time.Duration
	// Batching is how calls that arrive together go to Redis; "" means
	// BatchScript.
	Batching Batching
	// Refusals is the number of refusals that the store remembers, for at most
	// a second: calls that Redis would refuse again are not sent. 0 means
	// DefaultRefusals, less than 0 none.
	Refusals int
	// Receipts is the number of receipts of its own takes that the store remembers:
	// it settles them in one call of Redis, others in two. 0 means DefaultReceipts,
	// less than 0 none.
	Receipts int
	// OnDamage is called with each key whose value is no set of counters: it
	// was tampered with, or belongs to another program. The script treats such
	// a value as absent. OnDamage runs once per script call that meets the key,
	// in many goroutines, and must return at once. A panic in it is dropped:
	// the call belongs to many callers, and none of them can receive it.
	OnDamage func(key string)
	// OnLag is called with the lateness of this process's timers, 0 or more,
	// up to 500 times per second while there are calls. It must not block.
	OnLag func(time.Duration)
	// OnRoundTrip is called after each round trip to Redis, with the time that it
	// took and the kind of its fault: "" for none, else one of TripFaults. It must
	// return at once, and is called concurrently.
	OnRoundTrip func(took time.Duration, fault string)
	// OnScript is called for each script call with the number of decisions in it.
	// It must return at once, and is called concurrently.
	OnScript func(decisions int)
	// Space separates counters that begin as copies of the counters of the prefix; see Copier.
	// "" for the counters of the prefix. It is part of every key, after the prefix.
	Space string
	// Until is the instant at which all keys expire at the latest; zero for none.
	Until time.Time
	// Linger is how long Redis keeps a counter beyond its end; 0 means one
	// second. Only plans with a clock slower than the clock of Redis, such as those
	// of a replay, need more.
	Linger time.Duration
}

const (
	// DefaultRefusals is the default number of remembered refusals. They take
	// some megabytes.
	DefaultRefusals = 1 << 15
	// DefaultBudget is the default bound of a call to Redis.
	DefaultBudget = 100 * time.Millisecond
)

var (
	errCluster   = errors.New("redis-cluster:// is not one server; open it as a Cluster")
	errNoCluster = errors.New("only supported with a redis-cluster:// URL")
)

// Validate returns what is invalid about the address, credentials and client,
// as far as possible without connecting. The error joins redisconn.OptionErrors.
func (o *Options) Validate() error {
	if o.Client != nil {
		return redisconn.CheckClient(o.Client)
	}
	_, err := o.Address()
	return err
}

// Address returns the address that the options describe.
func (o *Options) Address() (*redisconn.Address, error) {
	a, err := redisconn.NewAddress(redisconn.Options{
		URL:      o.URL,
		Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		TLS: o.TLS, Timeout: o.budget(),
	})
	if kind, ok := redisconn.KindOf(o.URL); ok && o.FixedTag && kind != redisconn.Cluster {
		err = errors.Join(err, &redisconn.OptionError{Option: "FixedTag", Err: errNoCluster})
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (o *Options) budget() time.Duration {
	if o.Budget == 0 {
		return DefaultBudget
	}
	return o.Budget
}

// prefix returns the beginning of every key.
func (o *Options) prefix() string { return cmp.Or(o.Prefix, DefaultPrefix) }

// check returns what is invalid about the options that have nothing to do with
// the address.
func (o *Options) check() error {
	if o.Prefix != "" {
		if err := checkPrefix(o.Prefix); err != nil {
			return err
		}
	}
	if o.Budget < 0 {
		return fmt.Errorf("redis budget %v: must be more than 0", o.Budget)
	}
	return o.Batching.check()
}

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
