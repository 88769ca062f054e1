package exceptions

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
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
)

const (
	// callTimeout bounds one call of Redis.
	callTimeout = 2 * time.Second
	// piece is the number of exceptions in one call, so that none occupies Redis for
	// long.
	piece = 200
)

// records are the exceptions in Redis: a hash of exceptions by place, and a version that
// every change replaces. The keys share a hash tag, so that a Cluster keeps them in one
// slot, and expire with the last exception.
type records struct {
	client        goredis.UniversalClient
	book, version string // keys
	prefix        string
	key           ed25519.PublicKey // nil if signatures are not required
	max           int
	ahead         atomic.Int64 // ns: the clock of Redis, ahead of that of this process
}

func newRecords(client goredis.UniversalClient, prefix string, key ed25519.PublicKey, most int) *records {
	begin := prefix + ":{exceptions}:"
	return &records{client: client, prefix: prefix, key: key, book: begin + "book", version: begin + "version", max: most}
}

// look returns the version, and reads the clock of Redis.
func (r *records) look(ctx context.Context, now func() time.Time) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before := now()
	pipe := r.client.Pipeline()
	version, clock := pipe.Get(ctx, r.version), pipe.Time(ctx)
	_, err := pipe.Exec(ctx)
	if err != nil && !errors.Is(err, goredis.Nil) {
		return "", err
	}
	after := now()
	if shows, err := clock.Result(); err == nil {
		r.ahead.Store(int64(shows.Sub(before.Add(after.Sub(before) / 2))))
	}
	return version.Val(), nil
}

// read reads all exceptions in pieces. It passes invalid exceptions to faulty and
// leaves them out.
func (r *records) read(ctx context.Context, faulty func(error)) (map[string]Exception, error) {
	all := make(map[string]Exception)
	for cursor := uint64(0); ; {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		pairs, next, err := r.client.HScan(call, r.book, cursor, "", piece).Result()
		cancel()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			x, err := r.parse(pairs[i], pairs[i+1])
			switch {
			case err != nil:
				faulty(fmt.Errorf("%.100q: %w", pairs[i], err))
			case len(all) >= r.max:
				return nil, ErrFull
			default:
				all[pairs[i]] = x
			}
		}
		if cursor = next; cursor == 0 {
			return all, nil
		}
	}
}

// parse reads an exception, and verifies its signature.
func (r *records) parse(place, text string) (Exception, error) {
	x, err := parse(place, text)
	if err != nil {
		return x, err
	}
	return x, x.verify(r.key, r.prefix)
}

// add adds exceptions and returns the new version.
func (r *records) add(ctx context.Context, list []Exception) (string, error) {
	version := rand.Text()
	for len(list) > 0 {
		some := list[:min(piece, len(list))]
		list = list[len(some):]
		args := []any{version, r.max}
		for i := range some {
			args = append(args, some[i].place(), some[i].encode(), some[i].Until.UnixMilli())
		}
		answer, err := r.run(ctx, addScript, args...)
		if err != nil {
			return "", err
		}
		switch {
		case answer == "full":
			return "", ErrFull
		case strings.HasPrefix(answer, "conflict "):
			place, text, _ := strings.Cut(strings.TrimPrefix(answer, "conflict "), "\n")
			other, err := r.parse(place, text)
			if err != nil {
				return "", fmt.Errorf("the exception at %.100q in Redis is not valid: %w", place, err)
			}
			return "", &ConflictError{other}
		}
	}
	return version, nil
}

// remove removes the exception at a place and returns the new version.
func (r *records) remove(ctx context.Context, place string) (string, error) {
	version := rand.Text()
	_, err := r.run(ctx, removeScript, version, place)
	return version, err
}

// prune removes exceptions that have ended, unless others are at their places by now.
func (r *records) prune(ctx context.Context, ended []Exception) error {
	for some := range slices.Chunk(ended, piece) {
		var args []any
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := script.Run(ctx, r.client, []string{r.book, r.version}, args...).Text()
	if err != nil {
		return "", fmt.Errorf("redis does not keep the exception: %w", err)
	}
	return answer, nil
}
