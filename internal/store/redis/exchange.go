package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// maxSpans bounds how often a bundle is sent with other spans. The second attempt uses
// the measured clock of Redis, so only the end of a unit needs a third.
const maxSpans = 3

var errSpans = errors.New("redis: its clock jumps: no calendar unit fits it")

// server is the server to which a Batcher sends its bundles.
type server struct {
	*Evaluator
	client goredis.UniversalClient
}

// exchange carries out bundles, mostly in one round trip. If Redis does not
// know the script, nothing ran: the bundles are sent once more with the text of
// the script, which Redis then knows. If their spans do not fit the clock of Redis,
// nothing was counted: they are sent again with others. If the script failed, nothing was
// counted: the calls are sent again one by one, so that only the faulty one fails.
func (s *server) exchange(ctx context.Context, bundles []*bundle) {
	for _, b := range bundles {
		b.pack(s.Evaluator)
		s.plans.Add(int64(len(b.calls)))
		if s.onScript != nil {
			s.onScript(len(b.calls))
		}
	}
	for len(bundles) > 0 {
		asking := s.command(ctx, bundles)
		var refused error
		began := time.Now()
		s.flying.Add(1)
		if len(bundles) == 1 && !asking {
			_ = s.client.Process(ctx, bundles[0].sent) // cheaper than a pipeline
		} else {
			refused = pipe(ctx, s.client, bundles)
		}
		s.flying.Add(-1)
		if s.onTrip != nil {
			s.onTrip(time.Since(began), tripFault(faultOf(bundles)))
		}
		bundles = s.receive(bundles, refused)
	}
}

// command makes the commands of a round trip, and reports whether one of them follows ASKING.
func (s *server) command(ctx context.Context, bundles []*bundle) (asking bool) {
	for _, b := range bundles {
		b.written = false
		name, text := "evalsha", s.script.Hash()
		if b.again {
			name, text = "eval", script()
		}
		b.sent = goredis.NewCmd(ctx, b.command(name, text)...)
		b.sent.SetFirstKeyPos(3)
		asking = asking || b.calls[0].Asking
	}
	s.scripts.Add(int64(len(bundles)))
	return asking
}

// receive delivers the replies of a round trip, and returns the bundles that must be sent
// again. refused is the error of an ASKING, or nil.
func (s *server) receive(bundles []*bundle, refused error) (again []*bundle) {
	for _, b := range bundles {
		text, err := b.sent.Text()
		b.replied = b.replied || isReply(err)
		if refused != nil && goredis.HasErrorPrefix(err, "MOVED") && b.calls[0].Asking {
			err = refused // the reason for the redirect
		}
		switch {
		case goredis.HasErrorPrefix(err, "NOSCRIPT") && !b.again:
			b.again = true
			again = append(again, b)
		case err != nil:
			b.fail(b.unsent(err, len(bundles) == 1))
		default:
			again = append(again, s.deliver(b, text)...)
		}
	}
	return again
}

// deliver delivers a reply of the script, and returns the bundles that must be sent again.
func (s *server) deliver(b *bundle, text string) (again []*bundle) {
	switch b.deliver(text, s.onDamage) {
	case wantsSpans:
		s.skew.Store(b.clock - time.Now().UnixMilli())
		if b.spanned++; b.spanned == maxSpans {
			b.fail(errSpans)
			return nil
		}
		b.pack(s.Evaluator)
		return []*bundle{b}
	case wantsEach:
		return s.separate(b)
	}
	return nil
}

// faultOf returns an error of the commands of a round trip, or nil. An unknown script
// is no error: it is sent again.
func faultOf(bundles []*bundle) error {
	for _, b := range bundles {
		if err := b.sent.Err(); err != nil && !goredis.HasErrorPrefix(err, "NOSCRIPT") {
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

// pipe sends the commands of bundles in one round trip. Each keeps its own error. A node
// that is importing a slot carries out only commands that follow ASKING; refused
// is the error of an ASKING that failed.
func pipe(ctx context.Context, client goredis.UniversalClient, bundles []*bundle) (refused error) {
	p := client.Pipeline()
	var askings []*goredis.Cmd
	for _, b := range bundles {
		if b.calls[0].Asking {
			asking := goredis.NewCmd(ctx, "asking")
			askings = append(askings, asking)
			_ = p.Process(ctx, asking)
		}
		_ = p.Process(ctx, b.sent)
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
func (s *server) separate(b *bundle) []*bundle {
	var list []*bundle
	for _, c := range b.calls {
		one := new(bundle)
		one.add(c)
		one.pack(s.Evaluator)
		list = append(list, one)
	}
	return list
}

// argument is the argument of a bundle's command. The client library encodes it when it
// writes the command to a connection.
type argument bundle

// MarshalBinary returns the encoded argument for the client library.
func (a *argument) MarshalBinary() ([]byte, error) {
	a.written = true
	return a.blob.bytes, nil
}

// unsent marks the error of a round trip in which the script certainly did not run: no
// connection took the command, or only a part of it. alone reports that the round trip
// had no other command; of several, Redis may carry out the commands that it got.
func (b *bundle) unsent(err error, alone bool) error {
	if isReply(err) {
		return err
	}
	var network *net.OpError
	isCut := alone && errors.As(err, &network) && network.Op == "write"
	if b.written && !isCut {
		return err
	}
	return fmt.Errorf("%w: %w", redisconn.ErrUnsent, err)
}

// The faults of round trips.
const (
	tripTimeout    = "timeout"    // no reply within the time of the calls
	tripConnection = "connection" // Redis could not be reached, or ended the connection
	tripRedirect   = "redirect"   // a node of a Cluster named another one
	tripReply      = "reply"      // Redis replied with another error
)

// TripFaults lists the kinds of faults of round trips.
var TripFaults = []string{tripTimeout, tripConnection, tripRedirect, tripReply}

// tripFault returns the kind of fault of a round trip with this error; "" for nil.
func tripFault(err error) string {
	switch {
	case err == nil:
		return ""
	case goredis.HasErrorPrefix(err, "MOVED"), goredis.HasErrorPrefix(err, "ASK"):
		return tripRedirect
	case redisconn.TimedOut(err):
		return tripTimeout
	case redisconn.Unreachable(err):
		return tripConnection
	}
	return tripReply
}
