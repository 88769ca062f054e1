package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// exchange carries out bundles, mostly in one round trip. If Redis does not
// know the script, nothing ran: the bundles are sent once more with the text of
// the script, which Redis then knows. If the script failed, nothing was counted:
// the calls are sent again one by one, so that only the faulty one fails.
func (e *Evaluator) exchange(ctx context.Context, client goredis.UniversalClient, bundles []*bundle) {
	for _, b := range bundles {
		b.pack(e.shortcut, e.linger, e.span)
		e.plans.Add(int64(len(b.calls)))
		if e.onScript != nil {
			e.onScript(len(b.calls))
		}
	}
	for len(bundles) > 0 {
		bundles = e.roundTrip(ctx, client, bundles)
	}
}

// roundTrip sends bundles, delivers the replies and returns the bundles that
// must be sent again.
func (e *Evaluator) roundTrip(ctx context.Context, client goredis.UniversalClient, bundles []*bundle) (again []*bundle) {
	var one [1]*goredis.Cmd
	commands, asking := one[:0], false
	for _, b := range bundles {
		b.written = false
		name, text := "evalsha", e.script.Hash()
		if b.again {
			name, text = "eval", script
		}
		command := goredis.NewCmd(ctx, b.command(name, text)...)
		command.SetFirstKeyPos(3)
		commands, asking = append(commands, command), asking || b.calls[0].Asking
	}
	e.scripts.Add(int64(len(bundles)))
	var refused error
	began := time.Now()
	switch e.flying.Add(1); {
	case len(commands) == 1 && !asking:
		_ = client.Process(ctx, commands[0]) // cheaper than a pipeline
	default:
		refused = pipe(ctx, client, commands, bundles)
	}
	e.flying.Add(-1)
	if e.onTrip != nil {
		e.onTrip(time.Since(began), tripFault(faultOf(commands)))
	}
	for i, b := range bundles {
		text, err := commands[i].Text()
		b.replied = b.replied || isReply(err)
		if refused != nil && goredis.HasErrorPrefix(err, "MOVED") && b.calls[0].Asking {
			err = refused // the reason for the redirect
		}
		switch {
		case goredis.HasErrorPrefix(err, "NOSCRIPT") && !b.again:
			b.again = true
			again = append(again, b)
		case err != nil:
			b.fail(b.unsent(err, len(commands) == 1))
		case b.deliver(text, e.onDamage):
			again = append(again, e.separate(b)...)
		}
	}
	return again
}

// faultOf returns an error of the commands of a round trip, or nil. An unknown script
// is no error: it is sent again.
func faultOf(commands []*goredis.Cmd) error {
	for _, c := range commands {
		if err := c.Err(); err != nil && !goredis.HasErrorPrefix(err, "NOSCRIPT") {
			return err
		}
	}
	return nil
}

// isReply reports whether a command with this error, or nil, got a reply.
func isReply(err error) bool {
	if err == nil {
		return true
	}
	var reply goredis.Error // allocated
	return errors.As(err, &reply)
}

// ErrAskingRefused is the error of a call whose node refuses ASKING.
var ErrAskingRefused = errors.New("ASKING failed, without which a node does not serve a slot that is moving to it")

// pipe sends the commands in one round trip. Each keeps its own error. A node
// that is importing a slot carries out only commands that follow ASKING; refused
// is the error of an ASKING that failed.
func pipe(ctx context.Context, client goredis.UniversalClient, commands []*goredis.Cmd, bundles []*bundle) (refused error) {
	p := client.Pipeline()
	var askings []*goredis.Cmd
	for i, c := range commands {
		if bundles[i].calls[0].Asking {
			asking := goredis.NewCmd(ctx, "asking")
			askings = append(askings, asking)
			_ = p.Process(ctx, asking)
		}
		_ = p.Process(ctx, c)
	}
	_, _ = p.Exec(ctx)
	for _, asking := range askings {
		var reply goredis.Error
		if err := asking.Err(); errors.As(err, &reply) {
			refused = fmt.Errorf("%w: %w", ErrAskingRefused, err)
		}
	}
	return refused
}

// separate returns a packed bundle for each call of b.
func (e *Evaluator) separate(b *bundle) []*bundle {
	var list []*bundle
	for _, c := range b.calls {
		one := new(bundle)
		one.add(c)
		one.pack(e.shortcut, e.linger, e.span)
		list = append(list, one)
	}
	return list
}
