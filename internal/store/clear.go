package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// clearBatch is how many keys go at once: a Redis that others use must not
// stand still for it.
const clearBatch = 500

// Clear removes every key under the store's prefix. It is for a prefix that
// nobody else counts under.
func (r *Redis) Clear(ctx context.Context) error {
	if r.refusals != nil {
		defer r.refusals.forget()
	}
	var err error
	if r.nodes != nil {
		err = r.clearNodes(ctx)
	} else {
		err = r.clear(ctx, r.client)
	}
	if err != nil {
		return fmt.Errorf("redis: removing the keys of %s: %w", r.prefix, err)
	}
	return nil
}

// clear removes the keys of one node. A scan may tell of a key twice, and
// tells of each that is there from begin to end.
func (r *Redis) clear(ctx context.Context, node redis.Cmdable) error {
	pattern := globEscape.Replace(r.prefix) + ":*"
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, clearBatch).Result()
		if err != nil {
			return err
		}
		if err := unlink(ctx, node, keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// unlink removes keys in one round trip, one by one: in a cluster their slots
// differ.
func unlink(ctx context.Context, node redis.Cmdable, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Unlink(ctx, key)
		}
		return nil
	})
	return err
}

// globEscape makes a prefix stand for itself in a pattern.
var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
