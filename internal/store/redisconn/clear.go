package redisconn

import (
	"context"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// clearBatch is the number of keys removed at once: a Redis that other clients
// use must not block for longer.
const clearBatch = 500

// Clear removes every key of the node that begins with prefix and a colon. A
// scan may return a key twice, and returns each that exists from beginning to
// end.
func Clear(ctx context.Context, node goredis.Cmdable, prefix string) error {
	pattern := globEscape.Replace(prefix) + ":*"
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

// unlink removes keys in one round trip with a command each: in a Cluster their
// slots differ.
func unlink(ctx context.Context, node goredis.Cmdable, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := node.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, key := range keys {
			p.Unlink(ctx, key)
		}
		return nil
	})
	return err
}

// globEscape escapes a prefix for use in a pattern.
var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
