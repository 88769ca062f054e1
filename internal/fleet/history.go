package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Version returns the manifest of a version and the purpose of its signature, "" without one.
// The error is a RefusedError if the version does not exist, or cannot be trusted or read.
func (r *Records) Version(ctx context.Context, number uint64) (*Manifest, Purpose, error) {
	v, err := r.versionRecord(ctx, number)
	if err != nil {
		return nil, "", err
	}
	return v.manifest, v.purpose, nil
}

// readRecord returns the unchecked record of a version, empty if there is none.
func (r *Records) readRecord(ctx context.Context, number uint64) ([]byte, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	value, err := r.client.GetRange(ctx, r.keys.version(number), 0, maxManifest).Bytes()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, unavailable(err)
	}
	return value, nil
}

// versionRecord returns a version without its contents. A RefusedError is untrusted if a key
// is set: whoever can write to Redis can cause it.
func (r *Records) versionRecord(ctx context.Context, number uint64) (*version, error) {
	value, err := r.readRecord(ctx, number)
	switch {
	case err != nil:
		return nil, err
	case len(value) == 0:
		return nil, r.untrusted("version %d is not in Redis", number)
	}
	m, purpose, err := r.openRecord(number, value)
	if err != nil {
		return nil, r.untrusted("version %d is refused: %v", number, err)
	}
	return &version{manifest: m, value: value, sum: sumOf(value), purpose: purpose}, nil
}

func (r *Records) untrusted(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), untrusted: r.o.PublicKey != nil}
}

// mayDecide reports whether instances may decide by a version: with a key, only if it was
// signed as the one in force.
func (r *Records) mayDecide(p Purpose) bool { return r.o.PublicKey == nil || p == InForce }

// Listed is a version in the history.
type Listed struct {
	*Manifest
	InForce bool
	Problem string // why the version cannot be used; Manifest then has a number only
}

// Versions returns the history, newest first: as many versions as stay in Redis, and some that are
// not yet removed, however many a program that can write to Redis adds. The one in force is among
// them. It pauses as ctx does.
func (r *Records) Versions(ctx context.Context) ([]Listed, error) {
	state, err := r.State(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := r.numbers(ctx, min(max(r.o.Keep, 2)+unpruned, maxHistory))
	if err != nil {
		return nil, err
	}
	if state.InForce > 0 && !slices.Contains(numbers, state.InForce) {
		numbers = append(numbers, state.InForce)
	}
	list := make([]Listed, 0, len(numbers))
	for _, n := range numbers {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		one := Listed{InForce: n == state.InForce}
		m, purpose, err := r.Version(ctx, n)
		var wrong *RefusedError
		switch {
		case errors.As(err, &wrong):
			one.Manifest, one.Problem = &Manifest{Number: n}, wrong.Reason
		case err != nil:
			return nil, err
		case !r.mayDecide(purpose):
			one.Manifest, one.Problem = &Manifest{Number: n}, fmt.Sprintf("version %d is not signed as one that was in force", n)
		default:
			one.Manifest = m
		}
		list = append(list, one)
	}
	return list, nil
}

// maxHistory is the maximum number of versions that are read from the history.
const maxHistory = 1000

// unpruned is the number of versions that Versions reads beyond those that stay.
const unpruned = 16

// numbers returns the numbers of the history, newest first, at most some.
func (r *Records) numbers(ctx context.Context, most int) ([]uint64, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	texts, err := readHistory().Run(ctx, r.client, r.keys.all(), r.keys.arguments(most)...).StringSlice()
	if err != nil {
		return nil, unavailable(err)
	}
	var numbers []uint64
	for _, text := range texts {
		if n := numberOf(text); n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// checkPolicy returns an error if Redis may drop keys that have no expiry.
func (r *Records) checkPolicy(ctx context.Context) error {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	text, err := r.memoryInfo(ctx)
	if err != nil {
		return nil // the user may not read it; docs/publishing.md names the policies
	}
	if policy, drops := dropsKeys(text); drops {
		return refused("Redis has maxmemory-policy %s, which may drop published rules at maxmemory; set noeviction or a policy that begins with volatile-", policy)
	}
	return nil
}

// memoryInfo returns INFO memory of the server that holds the records, which on a Cluster is
// one of the nodes.
func (r *Records) memoryInfo(ctx context.Context) (string, error) {
	nodes, isCluster := r.client.(*goredis.ClusterClient)
	if !isCluster {
		return r.client.Info(ctx, "memory").Result()
	}
	owner, err := nodes.MasterForKey(ctx, r.keys.head)
	if err != nil {
		return "", err
	}
	return owner.Info(ctx, "memory").Result()
}

// dropsKeys reads the policy from the text of INFO memory, and reports whether Redis may
// drop keys without an expiry.
func dropsKeys(text string) (policy string, drops bool) {
	info := redisconn.ParseInfo(text)
	policy = info["maxmemory_policy"]
	return policy, info["maxmemory"] != "0" && strings.HasPrefix(policy, "allkeys-")
}

// Prune removes the versions beyond the history that is kept. Blobs that no kept version
// uses expire, so that a publish that has just found one can still use it.
func (r *Records) Prune(ctx context.Context) error {
	state, err := r.State(ctx)
	if err != nil {
		return err
	}
	numbers, err := r.numbers(ctx, maxHistory)
	if err != nil || len(numbers) <= max(r.o.Keep, 2) {
		return err
	}
	old, used, err := r.droppable(ctx, numbers, state.InForce)
	if err != nil || len(old) == 0 {
		return err
	}
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	pipe := r.client.Pipeline()
	for _, m := range old {
		for _, b := range m.Blobs() {
			if !used[b.Sum] {
				pipe.PExpire(ctx, r.keys.blob(b.Sum), spareTime)
			}
		}
		pipe.Del(ctx, r.keys.version(m.Number))
		pipe.ZRem(ctx, r.keys.history, m.Number)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}

// droppable returns the versions of a history beyond what is kept, and the blobs of the others.
func (r *Records) droppable(ctx context.Context, numbers []uint64, inForce uint64) (old []*Manifest, used map[string]bool, err error) {
	used = make(map[string]bool)
	count := 0
	for _, n := range numbers {
		m, _, err := r.Version(ctx, n)
		var wrong *RefusedError
		if err != nil && !errors.As(err, &wrong) {
			return nil, nil, err
		}
		// A number above the one in force is that of no version.
		kept := n == inForce || n < inForce && count < max(r.o.Keep, 2)
		if n <= inForce {
			count++
		}
		switch {
		case !kept && m == nil:
			old = append(old, &Manifest{Number: n})
		case !kept:
			old = append(old, m)
		case m == nil:
			return nil, nil, nil // the blobs of an unreadable version are unknown: none is removed
		default:
			for _, b := range m.Blobs() {
				used[b.Sum] = true
			}
		}
	}
	return old, used, nil
}
