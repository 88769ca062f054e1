package exceptions

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
)

const (
	// followEvery is the time between two looks for changes by other instances.
	followEvery = 250 * time.Millisecond
	// dropEvery is the time between two searches for exceptions that have ended.
	dropEvery = time.Minute
)

// Run follows the changes of other instances, and forgets exceptions that have ended,
// until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	every := dropEvery
	if k.records != nil {
		every = followEvery
	}
	next := k.now().Add(dropEvery)
	delay.Every(ctx, every, nil, func() {
		if k.records != nil {
			k.follow(ctx)
		}
		if now := k.now(); now.After(next) {
			next = now.Add(dropEvery)
			k.prune(ctx)
		}
	})
}

// prune forgets exceptions that have ended, also in Redis.
func (k *Keeper) prune(ctx context.Context) {
	k.changing.Lock()
	defer k.changing.Unlock()
	pause := pausing(ctx)
	ended := k.drop(k.Now(), pause)
	k.replace(k.all, k.ordered, pause)
	if k.records == nil || len(ended) == 0 {
		return
	}
	if err := k.records.prune(ctx, ended); err != nil && ctx.Err() == nil {
		k.warner.Warn("exceptions that have ended stay in Redis", "error", err)
	}
}

// follow reads the exceptions in Redis if another instance has changed them.
func (k *Keeper) follow(ctx context.Context) {
	k.changing.Lock()
	defer k.changing.Unlock()
	version, err := k.records.look(ctx, k.now)
	if err == nil && version != k.version {
		var all map[string]*Exception
		if all, err = k.records.read(ctx, func(fault error) {
			k.warner.Warn("an exception in Redis is not valid; it is ignored", "error", fault)
		}); err == nil {
			k.version = version
			pause := pausing(ctx)
			k.replace(all, inOrder(all, pause), pause)
		}
	}
	if err != nil && ctx.Err() == nil {
		k.warner.Warn("the exceptions in Redis cannot be read; those known stay in force", "error", err)
	}
}
