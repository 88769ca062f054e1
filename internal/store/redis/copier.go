package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// Copier copies counters to a space of their prefix, and keeps which receipts of the space
// belong to receipts of the prefix.
type Copier struct {
	client goredis.UniversalClient
	until  time.Time
	timed  time.Duration // of one operation
	from   string        // the beginnings of keys
	to     string
}

// NewCopier returns a Copier to the space of these options. The caller closes the client,
// which is one of the same Redis.
func NewCopier(client goredis.UniversalClient, o *Options) *Copier {
	prefix := o.prefix()
	return &Copier{
		client: client, until: o.Until, timed: o.budget(),
		from: keyBegin(prefix, "", o.FixedTag), to: keyBegin(prefix, o.Space, o.FixedTag),
	}
}

// errCopyReply reports a reply to the script that is none of it.
var errCopyReply = errors.New("want two numbers")

//go:embed lua/copy.lua
var copyScript string

// Copied is the copy of a counter.
type Copied struct {
	Now bool // the call made it
	// At is the instant at which it was made, by the clock of this process and rather
	// too early; zero without one of the last ten seconds.
	At time.Time
}

// knownCopy is the time for which Redis knows when a copy was made.
const knownCopy = 10 * time.Second

// Copy copies the counters of rules, unless the space has counters of the same subject. The
// runs of a leak rule that are not in the value are copied if the call contains the rule.
func (c *Copier) Copy(ctx context.Context, rules []*store.Rule) ([]Copied, error) {
	copied, places, begin := make([]Copied, len(rules)), make(map[string][]int), time.Now()
	for i, r := range rules {
		places[string(r.Subject)] = append(places[string(r.Subject)], i)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timed)
	defer cancel()
	until, pipe := int64(0), c.client.Pipeline()
	if !c.until.IsZero() {
		until = c.until.UnixMilli()
	}
	replies := make(map[string]*goredis.Cmd, len(places))
	for subject, list := range places {
		from, to := string(appendKey(nil, c.from, []byte(subject))), string(appendKey(nil, c.to, []byte(subject)))
		keys := []string{from, to, to + ":c"}
		for _, i := range list {
			if r := rules[i]; method.Of(r.Method).Slides {
				log := fmt.Sprintf(":%d", r.Tag())
				keys = append(keys, from+log, to+log)
			}
		}
		replies[subject] = pipe.Eval(ctx, copyScript, keys, until, knownCopy.Milliseconds())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("redis: copy counters: %w", err)
	}
	for subject, reply := range replies {
		n, err := reply.Int64Slice()
		if err != nil || len(n) != 2 {
			return nil, fmt.Errorf("redis: copy counters: %w", errors.Join(err, errCopyReply))
		}
		one := Copied{Now: n[0] == 1}
		if n[1] >= 0 {
			one.At = begin.Add(-time.Duration(min(n[1], knownCopy.Milliseconds())) * time.Millisecond)
		}
		for _, i := range places[subject] {
			copied[i] = one
		}
	}
	return copied, nil
}

// linkKey returns the key of the link of a receipt.
func (c *Copier) linkKey(inForce string) string { return c.to + "{" + ReceiptTag + "}" + inForce }

// Link keeps the receipt of the space that belongs to one of the prefix.
func (c *Copier) Link(ctx context.Context, inForce, own string, span time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, c.timed)
	defer cancel()
	if err := c.client.Set(ctx, c.linkKey(inForce), own, span+time.Second).Err(); err != nil {
		return fmt.Errorf("redis: link a receipt: %w", err)
	}
	return nil
}

// Linked returns the receipt of the space that belongs to one of the prefix, "" for none. A
// value that is no receipt, of any type and size, is none.
func (c *Copier) Linked(ctx context.Context, inForce string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timed)
	defer cancel()
	own, err := c.client.GetRange(ctx, c.linkKey(inForce), 0, store.MaxReceipt).Result()
	switch {
	case goredis.HasErrorPrefix(err, "WRONGTYPE"):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("redis: find a receipt: %w", err)
	case !store.ValidReceipt(own):
		return "", nil
	}
	return own, nil
}
