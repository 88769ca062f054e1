package exceptions_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/exceptions"
)

// silence is a Redis that does not answer until it fails.
type silence struct {
	called chan struct{} // one value for the first call
	fails  chan struct{}
}

var errSilence = errors.New("no answer")

func (s *silence) DialHook(goredis.DialHook) goredis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errSilence }
}

func (s *silence) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(context.Context, goredis.Cmder) error {
		select {
		case s.called <- struct{}{}:
		default:
		}
		<-s.fails
		return errSilence
	}
}

func (s *silence) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(context.Context, []goredis.Cmder) error { return errSilence }
}

// New rules, questions and metrics do not wait for a Redis that is slow to answer about
// exceptions: a published version comes into force in time.
func TestNothingWaitsForASlowRedis(t *testing.T) {
	redis := &silence{make(chan struct{}, 1), make(chan struct{})}
	client := goredis.NewClient(&goredis.Options{MaxRetries: -1})
	client.AddHook(redis)
	k := exceptions.New(exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	<-redis.called
	// Each of these would wait until the test is out of time.
	k.Use(parseRules(t, ruleText))
	if list := k.List(); len(list) != 0 {
		t.Errorf("exceptions %v; want none", list)
	}
	if n := count(k); n != 0 {
		t.Errorf("%d exceptions are counted; want none", n)
	}
	cancel()
	close(redis.fails)
	<-ended
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
