package fleet

import (
	"context"
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Version returns the manifest of a version. The error is a RefusedError if the version
// does not exist, or cannot be trusted or read.
func (r *Records) Version(ctx context.Context, number uint64) (*Manifest, error) {
	m, _, err := r.versionRecord(ctx, number)
	return m, err
}

// versionRecord returns the manifest of a version and its record.
func (r *Records) versionRecord(ctx context.Context, number uint64) (*Manifest, []byte, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	value, err := r.client.GetRange(ctx, r.keys.version(number), 0, maxManifest).Bytes()
	switch {
	case err != nil && !errors.Is(err, goredis.Nil):
		return nil, nil, unavailable(err)
	case len(value) == 0:
		return nil, nil, refused("version %d is not in Redis", number)
	}
	m, err := r.openRecord(number, value)
	if err != nil {
		return nil, nil, refused("version %d is refused: %v", number, err)
	}
	return m, value, nil
}

// Listed is a version in the history.
type Listed struct {
	*Manifest
	InForce bool
	Problem string // why the version cannot be used; Manifest then has a number only
}

// Versions returns the history, newest first.
func (r *Records) Versions(ctx context.Context) ([]Listed, error) {
	state, err := r.State(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := r.numbers(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Listed, 0, len(numbers))
	for _, n := range numbers {
		one := Listed{InForce: n == state.InForce}
		var wrong *RefusedError
		if one.Manifest, err = r.Version(ctx, n); errors.As(err, &wrong) {
			one.Manifest, one.Problem = &Manifest{Number: n}, wrong.Reason
		} else if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// maxHistory is the maximum number of versions that are read from the history.
const maxHistory = 1000

// numbers returns the numbers of the history, newest first.
func (r *Records) numbers(ctx context.Context) ([]uint64, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	texts, err := readHistory.Run(ctx, r.client, r.keys.all(), r.keys.arguments(maxHistory)...).StringSlice()
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
	ctx, cancel := call(ctx)
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
func dropsKeys(info string) (policy string, drops bool) {
	limit := ""
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	return policy, limit != "0" && strings.HasPrefix(policy, "allkeys-")
}

// Prune removes the versions beyond the history that is kept. Blobs that no kept version
// uses expire, so that a publish that has just found one can still use it.
func (r *Records) Prune(ctx context.Context) error {
	state, err := r.State(ctx)
	if err != nil {
		return err
	}
	numbers, err := r.numbers(ctx)
	if err != nil || len(numbers) <= max(r.o.Keep, 2) {
		return err
	}
	used, old := make(map[string]bool), []*Manifest{}
	for i, n := range numbers {
		m, err := r.Version(ctx, n)
		var wrong *RefusedError
		if err != nil && !errors.As(err, &wrong) {
			return err
		}
		if kept := i < max(r.o.Keep, 2) || n == state.InForce; !kept {
			if m == nil {
				m = &Manifest{Number: n}
			}
			old = append(old, m)
		} else if m != nil {
			for _, b := range m.Blobs() {
				used[b.Sum] = true
			}
		} else {
			return nil // the blobs of an unreadable version are unknown: none is removed
		}
	}
	ctx, cancel := call(ctx)
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
