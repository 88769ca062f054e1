// Package modes shares modes of doors with all instances, through Redis: an operator sets
// them once, and every instance follows within a second, also one that starts later. Each
// mode in Redis has a random name, and an instance applies it once, so that a later change
// at one instance stays. When a mode is not in Redis any more, it is undone: the modes expire
// a month after the last one was set. What Redis returns is bounded, and the caller checks it.
package modes

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// interval is the time between two readings.
	interval = time.Second
	// expiry is the time for which the modes outlive the last one that was set.
	expiry = 31 * 24 * time.Hour
	// maxText is the maximum length of a door or a value in Redis, in bytes.
	maxText = 64
	// maxDoors is the number of doors that are read.
	maxDoors = 64
	// maxFields is the number of fields in which they are looked for.
	maxFields = 1024
	// nameLength is the length of the name of a mode.
	nameLength = 12
)

// write sets modes and their expiry in one step.
var write = goredis.NewScript(`for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`)

// Options are the options of New. Redis and the functions are required.
type Options struct {
	// Redis holds the modes below Prefix. The keeper does not close it.
	Redis  goredis.UniversalClient
	Prefix string
	// IsDoor reports whether a door exists here; the others are left out.
	IsDoor func(string) bool
	// Apply is called with modes by door that were not applied yet. isOwn reports that Set
	// was called here. Modes may be unknown, as everything that Redis returns.
	Apply func(modes map[string]string, isOwn bool)
	// Undo is called with doors whose modes are not in Redis any more. It is never called
	// concurrently, also with Apply.
	Undo func(doors []string)
	// Logger receives faults of Redis. The default is slog.Default.
	Logger *slog.Logger
}

// Keeper shares modes. Set and Run may be called concurrently.
type Keeper struct {
	o      Options
	key    string
	warner loglimit.Warner

	mu    sync.Mutex
	known map[string]string // by door, the value that was applied
}

// New returns a keeper, without calling Redis.
func New(o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Keeper{
		o: o, key: o.Prefix + ":{modes}:doors", warner: loglimit.Warner{Logger: o.Logger}, known: make(map[string]string),
	}
}

// Set sets modes by door at all instances, at this one at once. With an error it is unknown
// whether they follow.
func (k *Keeper) Set(ctx context.Context, modes map[string]string) error {
	ctx, cancel := redisconn.Call(ctx, k.o.Redis)
	defer cancel()
	name := rand.Text()[:nameLength]
	arguments := []any{expiry.Milliseconds()}
	for door, mode := range modes {
		arguments = append(arguments, door, name+" "+mode)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := write.Run(ctx, k.o.Redis, []string{k.key}, arguments...).Err(); err != nil {
		return err
	}
	for door, mode := range modes {
		k.known[door] = name + " " + mode
	}
	k.o.Apply(modes, true)
	return nil
}

// Run follows the modes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	delay.Every(ctx, interval, nil, func() {
		if err := k.read(ctx); err != nil && ctx.Err() == nil {
			k.warner.Warn("the modes that operators set for all instances cannot be read", "error", err)
		}
	})
}

// read applies the modes that are new, and undoes those that are not in Redis any more.
func (k *Keeper) read(ctx context.Context) error {
	ctx, cancel := redisconn.Call(ctx, k.o.Redis)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	found, isWhole, err := k.scan(ctx)
	if err != nil {
		return err
	}
	fresh := make(map[string]string)
	for door, value := range found {
		if k.known[door] != value {
			_, fresh[door], _ = strings.Cut(value, " ")
			k.known[door] = value
		}
	}
	if len(fresh) > 0 {
		k.o.Apply(fresh, false)
	}
	var gone []string
	for door := range k.known {
		if _, stays := found[door]; !stays && isWhole {
			gone = append(gone, door)
			delete(k.known, door)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		k.o.Undo(gone)
	}
	return nil
}

// scan returns the values of the doors in Redis, and reports whether it has read all.
func (k *Keeper) scan(ctx context.Context) (found map[string]string, isWhole bool, err error) {
	found = make(map[string]string)
	fields := 0
	scan := redisconn.HashScan{Key: k.key, Page: maxDoors, MaxBytes: maxText}
	for field, err := range scan.Fields(ctx, k.o.Redis) {
		if err != nil {
			return nil, false, err
		}
		if strings.Contains(field.Value, " ") && k.o.IsDoor(field.Name) {
			found[field.Name] = field.Value
		}
		if fields++; fields >= maxFields || len(found) >= maxDoors {
			return found, false, nil
		}
	}
	return found, true, nil
}
