// Package fleet keeps published rules in Redis for all instances that share it.
//
// A version is a whole rule set: rule files, word lists and tables, by content. A
// Manifest names their blobs and carries number, author, note and signature. Records
// reads and writes versions, proposals, heartbeats and trials in Redis. A Member is
// an instance: it sends heartbeats, loads proposed versions, answers whether it can
// apply them, and switches at the instant that Redis's clock gives.
//
// A version is first proposed. The scripts in lua bring it into force when all live
// instances have loaded it, or let it lapse at its deadline, so that a publisher or an
// instance that ends at any step leaves no half state. Whatever Redis returns is
// checked: sizes before they are read, content by its hash, and numbers against the
// highest that was seen. With a public key, instances decide only by versions that the
// publisher has signed as the one in force, see Purpose.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// liveTime is the age up to which a heartbeat shows a live instance.
	liveTime = 3 * time.Second
	// pieceSize is the largest piece of a blob in one command, in bytes, so that
	// decisions wait for no more than that.
	pieceSize = 256 << 10
	// pieceGap is the time between two pieces of an upload, in which Redis and the
	// instance decide: 50 MB take about a second longer.
	pieceGap = 5 * time.Millisecond
	// maxNumber is the largest number that Redis's Lua holds exactly.
	maxNumber = 1<<53 - 1
	// spareTime is the time for which blobs and versions outlive their use.
	spareTime = 10 * time.Minute
)

// Options configure Records. Redis, Prefix and MaxVersionBytes are required.
type Options struct {
	// Redis is the Redis of the counters. The default of its Timeout is
	// redisconn.DefaultCallTimeout.
	Redis redisconn.Options
	// Prefix is the prefix of all keys.
	Prefix string
	// MaxVersionBytes is the maximum size of a version, in bytes. A larger one is
	// refused before it is read; 0 refuses all that have any content.
	MaxVersionBytes int64
	// Keep is the number of versions that stay in Redis, the one in force included; at least
	// that one and its predecessor do.
	Keep int
	// PublicKey verifies signatures; nil accepts versions with and without one.
	PublicKey PublicKey
}

// Records are the published rules in Redis. It is safe for concurrent use.
type Records struct {
	client goredis.UniversalClient
	o      Options
	keys   keys
}

// Open returns the records. It does not connect; the error concerns the options.
func Open(o Options) (*Records, error) {
	o.Redis.Timeout = cmp.Or(o.Redis.Timeout, redisconn.DefaultCallTimeout)
	address, err := redisconn.NewAddress(o.Redis)
	if err != nil {
		return nil, err
	}
	return &Records{client: address.ConnectAny(), o: o, keys: keysOf(o.Prefix)}, nil
}

// Options returns the options.
func (r *Records) Options() Options { return r.o }

// Close closes the connections.
func (r *Records) Close() error { return r.client.Close() }

// keys are the names of the keys. They share a hash tag, so that a Cluster keeps them
// in one slot and scripts can use them together.
type keys struct {
	begin                                                     string
	head, proposal, answers, instances, beats, history, trial string
}

func keysOf(prefix string) keys {
	b := prefix + ":{fleet}:"
	return keys{
		begin: b, head: b + "head", proposal: b + "proposal", answers: b + "answers", instances: b + "instances",
		beats: b + "beats", history: b + "history", trial: b + "trial",
	}
}

func (k *keys) version(number uint64) string { return fmt.Sprintf("%sversion:%d", k.begin, number) }
func (k *keys) blob(sum string) string       { return k.begin + "blob:" + sum }

// isWrongType reports whether Redis refused a command because of the type of a key.
func isWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// unavailable explains an error of Redis.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if isWrongType(err) {
		return fmt.Errorf("a key of published rules in Redis was overwritten by a value of another type; delete the keys of {fleet} and koalagate publish --restore: %w", err)
	}
	if redisconn.TimedOut(err) {
		return &awayError{fmt.Errorf("Redis does not answer within redis_call_timeout: %w: check its SLOWLOG, its load and the network", err)}
	}
	if remedy := redisconn.Remedy(err); remedy != "" {
		return &awayError{fmt.Errorf("Redis does not answer: %w: %s", err, remedy)}
	}
	return &awayError{fmt.Errorf("Redis does not answer: %w", err)}
}
