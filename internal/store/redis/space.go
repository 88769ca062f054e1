package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/space.lua
var spaceText string

var spaceScript = goredis.NewScript(spaceText)

// spaceTime is the time for which an instance has a part in a space after its last Keep.
const spaceTime = 10 * time.Second

// nameLength is the length of the names of spaces and of their instances.
const nameLength = 12

// SpaceName is the part of an instance in the random name of a space, which all instances share that
// use it at the same time. When the last one has left, or did not keep its part for ten seconds, the
// next one draws another name, so that its counters begin afresh. Its methods must not be called
// concurrently.
type SpaceName struct {
	client         goredis.UniversalClient
	timed          time.Duration
	key            string
	name, instance string
}

// NewSpaceName returns the part of this instance in the name of a space for a purpose, such as the
// rules of a trial, in the Redis of these options. The caller closes the client.
func NewSpaceName(client goredis.UniversalClient, o *Options, purpose string) *SpaceName {
	return &SpaceName{
		client: client, timed: o.budget(), key: o.prefix() + ":{spaces}:" + purpose,
		name: rand.Text()[:nameLength], instance: rand.Text()[:nameLength],
	}
}

// Join returns the name. With an error it is one of this instance alone, and Keep tells later
// whether others have another one.
func (s *SpaceName) Join(ctx context.Context) (string, error) {
	name, err := s.call(ctx, spaceTime)
	if err == nil {
		s.name = name
	}
	return s.name, err
}

// Keep keeps the part of the instance, and reports whether the others have the same name. They have
// another one if Redis was out of reach for a while.
func (s *SpaceName) Keep(ctx context.Context) (same bool, err error) {
	name, err := s.call(ctx, spaceTime)
	return name == s.name, err
}

// Leave ends the part of the instance.
func (s *SpaceName) Leave(ctx context.Context) error {
	_, err := s.call(ctx, 0)
	return err
}

func (s *SpaceName) call(ctx context.Context, stays time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timed)
	defer cancel()
	name, err := spaceScript.Run(ctx, s.client, []string{s.key}, s.name, s.instance, stays.Milliseconds()).Text()
	if err != nil {
		return "", fmt.Errorf("redis: the name of a space: %w", err)
	}
	return name, nil
}
