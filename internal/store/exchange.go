package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// exchange carries out bundles, in one round trip mostly. Where Redis does not
// know the script, nothing was executed: these are sent once more with the
// script's text, which Redis then knows. Where the script met a fault nothing
// was counted: these calls go again one by one, so that only one of them fails.
func (r *Redis) exchange(ctx context.Context, client redis.UniversalClient, bundles []*bundle) {
	for _, b := range bundles {
		b.pack(r.shortcut, r.linger, r.days)
		r.plans.Add(int64(len(b.calls)))
	}
	for len(bundles) > 0 {
		bundles = r.roundTrip(ctx, client, bundles)
	}
}

// roundTrip sends bundles, delivers what comes back, and returns what is to be
// sent again.
func (r *Redis) roundTrip(ctx context.Context, client redis.UniversalClient, bundles []*bundle) (again []*bundle) {
	var one [1]*redis.Cmd
	commands, asking := one[:0], false
	for _, b := range bundles {
		name, text := "evalsha", r.script.Hash()
		if b.again {
			name, text = "eval", script
		}
		command := redis.NewCmd(ctx, b.command(name, text)...)
		command.SetFirstKeyPos(3)
		commands, asking = append(commands, command), asking || b.calls[0].asking
	}
	r.scripts.Add(int64(len(bundles)))
	var unasked error
	switch {
	case len(commands) == 1 && !asking:
		_ = client.Process(ctx, commands[0]) // a pipeline would only cost
	default:
		unasked = pipe(ctx, client, commands, bundles)
	}
	for i, b := range bundles {
		text, err := commands[i].Text()
		if unasked != nil && redis.HasErrorPrefix(err, "MOVED") && b.calls[0].asking {
			err = unasked // why the node sends the call back
		}
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT") && !b.again:
			b.again = true
			again = append(again, b)
		case err != nil:
			b.fail(err)
		case b.deliver(text, r.onDamage):
			again = append(again, r.apart(b)...)
		}
	}
	return again
}

// errUnasked is the answer of a node that is getting a slot and refuses ASKING.
var errUnasked = errors.New("ASKING, without which a slot on its way is not served")

// pipe makes the calls in one round trip. Each keeps its own error. A node of a
// Cluster that is getting a slot carries out what is behind ASKING; unasked is
// what it said if it did not take that.
func pipe(ctx context.Context, client redis.UniversalClient, commands []*redis.Cmd, bundles []*bundle) (unasked error) {
	p := client.Pipeline()
	var asked []*redis.Cmd
	for i, c := range commands {
		if bundles[i].calls[0].asking {
			ask := redis.NewCmd(ctx, "asking")
			asked = append(asked, ask)
			_ = p.Process(ctx, ask)
		}
		_ = p.Process(ctx, c)
	}
	_, _ = p.Exec(ctx)
	for _, ask := range asked {
		var reply redis.Error
		if err := ask.Err(); errors.As(err, &reply) {
			unasked = fmt.Errorf("%w: %w", errUnasked, err)
		}
	}
	return unasked
}

// apart returns a bundle for each of b's calls.
func (r *Redis) apart(b *bundle) []*bundle {
	var list []*bundle
	for _, c := range b.calls {
		one := new(bundle)
		one.add(c)
		one.pack(r.shortcut, r.linger, r.days)
		list = append(list, one)
	}
	return list
}
