package exceptions

import (
	"context"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
)

const (
	// followEvery is the time between two looks for changes by other instances.
	followEvery = 250 * time.Millisecond
	// dropEvery is the time between two searches for exceptions that have ended.
	dropEvery = time.Minute
)

// Run follows the changes of other instances, forgets exceptions that have ended, and reports bans
// that have, until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	every := time.Second
	if k.records != nil {
		every = followEvery
	}
	next := k.now().Add(dropEvery)
	delay.Every(ctx, every, nil, func() {
		k.rest(ctx)
		if now := k.now(); now.After(next) || k.hasEndedBan() {
			next = now.Add(dropEvery)
			k.prune(ctx)
		}
		if k.records != nil {
			k.follow(ctx)
		}
		k.report(ctx)
	})
}

// rest waits until there is an exception, or ctx is done. With Redis, it returns at once.
func (k *Keeper) rest(ctx context.Context) {
	for k.records == nil && k.isIdle() {
		select {
		case <-ctx.Done():
			return
		case <-k.added:
		}
	}
}

// isIdle reports whether there are no exceptions, and no bans to report.
func (k *Keeper) isIdle() bool {
	k.changing.Lock()
	defer k.changing.Unlock()
	return len(k.all) == 0 && len(k.over) == 0
}

// hasEndedBan reports whether a ban has ended that is not forgotten.
func (k *Keeper) hasEndedBan() bool {
	list := k.list()
	return slices.ContainsFunc(list[:len(list)-len(after(list, k.Now()))], func(x *Exception) bool { return x.What == Ban })
}

// report calls ended about bans that have, up to the first error.
func (k *Keeper) report(ctx context.Context) {
	k.changing.Lock()
	list := k.over
	k.over = nil
	k.changing.Unlock()
	for i, x := range list {
		err := k.ended(ctx, x)
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			k.warner.Warn("a ban has ended, but bans that rules have opened for its client may go on; this instance tries again", "exception", x.ID, "error", err)
		}
		k.changing.Lock()
		k.over = append(list[i:], k.over...)
		k.changing.Unlock()
		return
	}
}

// prune forgets exceptions that have ended, also in Redis.
func (k *Keeper) prune(ctx context.Context) {
	k.changing.Lock()
	defer k.changing.Unlock()
	pause := pausing(ctx)
	ended := k.drop(k.Now(), pause)
	k.replace(k.all, k.list(), pause)
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
	looked := k.Now()
	if err == nil && version != k.version {
		var all map[string]*Exception
		if all, err = k.records.read(ctx, func(fault error) {
			k.warner.Warn("an exception in Redis is not valid; it is ignored", "error", fault)
		}); err == nil {
			k.version = version
			pause := pausing(ctx)
			for place, x := range k.all {
				pause()
				if now := all[place]; now == nil || now.ID != x.ID {
					k.noteRemoved(x)
				}
			}
			k.replace(all, inOrder(all, pause), pause)
		}
	}
	if err == nil {
		k.looked = looked
	}
	if err != nil && ctx.Err() == nil {
		k.warner.Warn("the exceptions in Redis cannot be read; those known stay in force", "error", err)
	}
}
