package service

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/fleet/modes"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/traffic"
)

// startModes returns the configured modes of the doors. Changes are recorded in
// metrics and logged.
func startModes(c *config.Config, m *metrics.Metrics, logger *slog.Logger) *engine.Modes {
	start := &engine.Modes{Changed: func(door string, from, to engine.Mode) {
		m.DoorMode(door, string(to))
		logger.Warn("the mode of a door has changed", "door", door, "from", string(from), "to", string(to))
	}}
	for _, door := range doorname.Served() {
		m.DoorMode(door, string(start.Of(door)))
		m.WatchDoor(door)
	}
	set := make(map[string]engine.Mode, len(c.Modes))
	for _, text := range c.Modes {
		door, mode, _ := strings.Cut(text, "=") // package config has checked both
		set[door] = engine.Mode(mode)
	}
	start.Set(set)
	return start
}

// followedModes are the modes of doors that this instance has from Redis. The functions are
// called by the keeper of the modes, one at a time.
type followedModes struct {
	s     *Service
	doors map[string]followedMode
}

// followedMode is a mode from Redis, and the one that the door had before.
type followedMode struct{ mode, before engine.Mode }

// follow returns the keeper of the modes that operators set for all instances in o.Redis.
func (f *followedModes) follow(o modes.Options) *modes.Keeper {
	o.Prefix, o.Logger = f.s.config.RedisPrefix, f.s.logger
	o.IsDoor, o.Apply, o.Undo = doorname.IsServed, f.apply, f.undo
	return modes.New(o)
}

// apply applies modes. It leaves out what a newer program may have set.
func (f *followedModes) apply(set map[string]string, isOwn bool) {
	for _, door := range slices.Sorted(maps.Keys(set)) {
		mode, err := engine.ParseMode(set[door])
		if err != nil {
			f.s.logger.Warn("a mode for all instances is unknown to this one", "door", door, "mode", set[door])
			continue
		}
		current := f.s.modes.Of(door)
		last, isFollowed := f.doors[door]
		if !isFollowed || current != last.mode {
			last.before = current // an operator may have changed it here
		}
		f.doors[door] = followedMode{mode, last.before}
		if mode != current {
			f.s.modes.Set(map[string]engine.Mode{door: mode})
			if !isOwn { // the caller of this instance is in the audit trail
				f.record(door + " " + string(mode) + ", set in Redis for all instances, " + string(current) + " before")
			}
		}
	}
}

// undo gives doors the modes that they had before, but for those that an operator has changed
// here.
func (f *followedModes) undo(doors []string) {
	for _, door := range doors {
		last, isFollowed := f.doors[door]
		delete(f.doors, door)
		if !isFollowed || f.s.modes.Of(door) != last.mode || last.before == last.mode {
			continue
		}
		f.s.modes.Set(map[string]engine.Mode{door: last.before})
		f.record(door + " " + string(last.before) + " again: " + string(last.mode) + " is not set in Redis any more")
	}
}

// record adds a change to the audit trail that no operator made at this instance.
func (f *followedModes) record(detail string) {
	change := f.s.trail.Add(context.Background(), &audit.Change{Author: "redis", Action: "mode", Detail: detail})
	f.s.traffic.Send(traffic.EventChange, change)
}
