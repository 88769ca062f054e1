package exceptions

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

//go:embed lua/add.lua
var addText string

//go:embed lua/remove.lua
var removeText string

//go:embed lua/prune.lua
var pruneText string

var (
	pruneScript  = goredis.NewScript(pruneText)
	addScript    = goredis.NewScript(addText)
	removeScript = goredis.NewScript(removeText)
	// lookScript reads the clock of the node that holds the exceptions: the clocks of the
	// nodes of a Cluster may differ.
	lookScript = goredis.NewScript(`local clock = redis.call('TIME')
return {clock[1], clock[2], string.sub(redis.call('GET', KEYS[1]) or '', 1, 100)}`)
)

// piece is the number of exceptions in one call, so that none occupies Redis for long.
const piece = 200

// records are the exceptions in Redis: a hash of exceptions by place, and a version that
// every change replaces. The keys share a hash tag, so that a Cluster keeps them in one
// slot, and expire with the last exception.
type records struct {
	client        goredis.UniversalClient
	book, version string // keys
	prefix        string
	key           ed25519.PublicKey // nil if signatures are not required
	max           int
	ahead         atomic.Int64 // ns by which the clock of Redis is ahead of this process's
	seed          maphash.Seed
	known         map[string]known // by place, what the last read found; of read alone
}

// known is an exception that was parsed and verified, with the hash of its text. After a
// change of one exception, the others need not be parsed again.
type known struct {
	sum uint64
	*Exception
}

func newRecords(client goredis.UniversalClient, prefix string, key ed25519.PublicKey, most int) *records {
	begin := prefix + ":{exceptions}:"
	return &records{client: client, prefix: prefix, key: key, book: begin + "book", version: begin + "version", max: most, seed: maphash.MakeSeed()}
}

// look returns the version, and reads the clock of Redis.
func (r *records) look(ctx context.Context, now func() time.Time) (string, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	before := now()
	reply, err := lookScript.Run(ctx, r.client, []string{r.version}).StringSlice()
	if err != nil {
		return "", err
	}
	after := now()
	if len(reply) != 3 {
		return "", fmt.Errorf("the version of the exceptions has a reply of %d parts; want 3", len(reply))
	}
	seconds, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return "", fmt.Errorf("the clock of Redis: %w", err)
	}
	micros, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return "", fmt.Errorf("the clock of Redis: %w", err)
	}
	shows := time.Unix(seconds, micros*1000)
	r.ahead.Store(int64(shows.Sub(before.Add(after.Sub(before) / 2))))
	return reply[2], nil
}

// read reads all exceptions in pieces. It passes invalid exceptions to faulty and
// leaves them out. More than max_exceptions are in force, too, if the setting was higher before; the
// error is ErrFull only beyond what memory has room for. Without exceptions that were read before,
// those are left out that no longer fit. It is not safe for concurrent use.
func (r *records) read(ctx context.Context, faulty func(error)) (map[string]*Exception, error) {
	all := make(map[string]*Exception, len(r.known))
	fresh := make(map[string]known, len(r.known))
	scan := redisconn.HashScan{Key: r.book, Page: piece, MaxBytes: maxRecord, Timeout: redisconn.CallTimeout(r.client)}
	for field, err := range scan.Fields(ctx, r.client) {
		if err != nil {
			return nil, err
		}
		x, err := r.parseOnce(field.Name, field.Value)
		if err != nil {
			faulty(fmt.Errorf("%.100q: %w", field.Name, err))
			continue
		}
		if len(all) == max(r.max, defaultMax) {
			if len(r.known) > 0 {
				return nil, ErrFull
			}
			faulty(ErrFull)
			break
		}
		all[field.Name], fresh[field.Name] = x.Exception, x
	}
	r.known = fresh
	return all, nil
}

// parseOnce returns what the last read found at a place, if the text is the same.
func (r *records) parseOnce(place, text string) (known, error) {
	sum := maphash.String(r.seed, text)
	if x, found := r.known[place]; found && x.sum == sum {
		return x, nil
	}
	x, err := r.parse(place, text)
	return known{sum, &x}, err
}

// parse reads an exception, and verifies its signature.
func (r *records) parse(place, text string) (Exception, error) {
	x, err := parse(place, text)
	if err != nil {
		return x, err
	}
	return x, x.verify(r.key, r.prefix)
}

// add adds exceptions. If one of them contradicts another, or the store is full, it
// removes the exceptions that it has added.
func (r *records) add(ctx context.Context, list []Exception) error {
	for begin := 0; begin < len(list); begin += piece {
		err := r.addSome(ctx, list[begin:min(begin+piece, len(list))])
		if err == nil {
			continue
		}
		var conflict *ConflictError
		var of *EntryError
		if errors.As(err, &of) {
			of.Index += begin
		}
		if begin > 0 && (errors.As(err, &conflict) || errors.Is(err, ErrFull)) {
			err = errors.Join(err, r.prune(ctx, list[:begin]))
		}
		return err
	}
	return nil
}

func (r *records) addSome(ctx context.Context, some []Exception) error {
	// Each call has a version of its own: others may read between two calls.
	args := []any{rand.Text(), r.max}
	for i := range some {
		args = append(args, some[i].place(), some[i].encode(), some[i].Until.UnixMilli())
	}
	answer, err := r.run(ctx, addScript, args...)
	if err != nil {
		return err
	}
	if answer == "full" {
		return ErrFull
	}
	if found, isConflict := strings.CutPrefix(answer, "conflict "); isConflict {
		place, text, _ := strings.Cut(found, "\n")
		other, err := r.parse(place, text)
		if err != nil {
			return fmt.Errorf("the exception at %.100q in Redis is not valid: %w", place, err)
		}
		at := slices.IndexFunc(some, func(x Exception) bool { return x.place() == place })
		return &EntryError{max(at, 0), &ConflictError{other}}
	}
	return nil
}

// remove removes an exception. The error is ErrUnknown if Redis has none at its place, or another.
func (r *records) remove(ctx context.Context, x *Exception) error {
	answer, err := r.run(ctx, removeScript, rand.Text(), x.place(), x.ID)
	if err == nil && answer == "unknown" {
		return ErrUnknown
	}
	return err
}

// prune removes exceptions, unless others are at their places by now.
func (r *records) prune(ctx context.Context, list []Exception) error {
	for some := range slices.Chunk(list, piece) {
		args := []any{rand.Text()}
		for i := range some {
			args = append(args, some[i].place(), some[i].encode())
		}
		if _, err := r.run(ctx, pruneScript, args...); err != nil {
			return err
		}
	}
	return nil
}

func (r *records) run(ctx context.Context, script *goredis.Script, args ...any) (string, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	answer, err := script.Run(ctx, r.client, []string{r.book, r.version}, args...).Text()
	if err != nil {
		return "", fmt.Errorf("the exceptions in Redis were not changed, or the answer was lost: %w", err)
	}
	return answer, nil
}
