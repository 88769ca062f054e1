// Package modes shares modes of doors with all instances, through Redis: an operator sets
// them once, and every instance follows within a second, also one that starts later. Each
// mode in Redis has a random name, and an instance applies it once, so that a later change
// at one instance stays. The modes expire in Redis a month after the last one was set; the
// instances keep what they have. What Redis returns is bounded, and the caller checks it.
package modes

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// interval is the time between two readings.
	interval = time.Second
	// callTimeout bounds one call of Redis.
	callTimeout = 2 * time.Second
	// expiry is the time for which the modes outlive the last one that was set.
	expiry = 31 * 24 * time.Hour
	// maxText is the maximum length of a door or a value in Redis, in bytes.
	maxText = 64
	// maxDoors is the number of doors that are read.
	maxDoors = 64
	// nameLength is the length of the name of a mode.
	nameLength = 12
)

// write sets modes and their expiry in one step.
var write = goredis.NewScript(`for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`)

// Options are the options of New. Redis and Apply are required.
type Options struct {
	// Redis holds the modes below Prefix. The keeper does not close it.
	Redis  goredis.UniversalClient
	Prefix string
	// Apply is called with modes by door that were not applied yet, never concurrently.
	// Doors and modes may be unknown, as everything that Redis returns.
	Apply func(map[string]string)
	// Logger receives faults of Redis. The default is slog.Default.
	Logger *slog.Logger
}

// Keeper shares modes. Set and Run may be called concurrently.
type Keeper struct {
	o      Options
	key    string
	warner loglimit.Warner
	wake   chan struct{}
	known  map[string]string // by door, the value that was applied; of Run
}

// New returns a keeper, without calling Redis.
func New(o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Keeper{
		o: o, key: o.Prefix + ":{modes}:doors", warner: loglimit.Warner{Logger: o.Logger},
		wake: make(chan struct{}, 1), known: make(map[string]string),
	}
}

// Set sets modes by door at all instances. With an error it is unknown whether they follow.
func (k *Keeper) Set(ctx context.Context, modes map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := rand.Text()[:nameLength]
	arguments := []any{expiry.Milliseconds()}
	for door, mode := range modes {
		arguments = append(arguments, door, name+" "+mode)
	}
	err := write.Run(ctx, k.o.Redis, []string{k.key}, arguments...).Err()
	select {
	case k.wake <- struct{}{}:
	default: // a reading is due anyway
	}
	return err
}

// Run follows the modes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := k.read(ctx); err != nil && ctx.Err() == nil {
			k.warner.Warn("the modes that operators set for all instances cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.wake:
		}
	}
}

// read applies the modes that are new.
func (k *Keeper) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	fresh := make(map[string]string)
	scan := redisconn.HashScan{Key: k.key, Page: maxDoors, MaxBytes: maxText}
	for field, err := range scan.Fields(ctx, k.o.Redis) {
		if err != nil {
			return err
		}
		if _, mode, ok := strings.Cut(field.Value, " "); ok && k.known[field.Name] != field.Value {
			fresh[field.Name] = mode
			k.note(field.Name, field.Value)
		}
		if len(fresh) >= maxDoors {
			break
		}
	}
	if len(fresh) > 0 {
		k.o.Apply(fresh)
	}
	return nil
}

// note remembers the applied modes, in bounded memory.
func (k *Keeper) note(door, value string) {
	if len(k.known) >= maxDoors {
		clear(k.known)
	}
	k.known[door] = value
}
