package store

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Finding is what an operator should know of how Redis is set up.
type Finding struct {
	Text    string
	Warning bool // counters may be lost, or calls fail, in ordinary use
}

// Inspect looks at the version and the settings of Redis, of every master of a
// Cluster, and tells what may harm counting there. Where the user may not see
// them, it says only that. An error says that Redis did not answer, or which
// masters did not: what was found of the others is told beside it.
func (r *Redis) Inspect(ctx context.Context) ([]Finding, error) {
	if r.nodes == nil {
		return inspect(ctx, r.client)
	}
	if err := r.nodes.learn(ctx); err != nil {
		return nil, err
	}
	var all []Finding
	seen := make(map[string]bool)
	err := r.nodes.eachOwning(func(n *node) error {
		list, err := inspect(ctx, n.client)
		for _, f := range list {
			if !seen[f.Text] { // most say the same
				seen[f.Text] = true
				all = append(all, Finding{"node " + n.addr + ": " + f.Text, f.Warning})
			}
		}
		return err
	})
	return all, err
}

func inspect(ctx context.Context, client redis.UniversalClient) ([]Finding, error) {
	text, err := client.Info(ctx).Result()
	if err != nil {
		return unseen("INFO", err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	list := judgeInfo(info)
	settings, err := client.ConfigGet(ctx, "*").Result()
	if err != nil {
		more, err := unseen("CONFIG GET", err)
		return append(list, more...), err
	}
	return append(list, judgeSettings(settings)...), nil
}

// unseen is the finding that a command may not be used. Managed Redis often has
// no CONFIG at all.
func unseen(command string, err error) ([]Finding, error) {
	var reply redis.Error
	if errors.As(err, &reply) && (denied(err) || strings.HasPrefix(reply.Error(), "ERR")) {
		return []Finding{{Text: "its user may not use " + command + ": its settings are not looked at"}}, nil
	}
	return nil, err
}

// judgeInfo judges what INFO says.
func judgeInfo(info map[string]string) []Finding {
	var list []Finding
	if v := info["redis_version"]; tooOld(v) {
		list = append(list, Finding{"it is Redis " + v + ": want 6.2 or newer", true})
	}
	if info["role"] == "slave" {
		list = append(list, Finding{"it is a replica, which cannot count: name its master, or have Sentinel name it", true})
	}
	if policy := info["maxmemory_policy"]; info["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		list = append(list, Finding{"maxmemory-policy is " + policy + ": when maxmemory is reached Redis drops counters, and limits begin afresh; set noeviction", true})
	}
	return list
}

// tooOld tells whether a version is below 6.2.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (a < 6 || a == 6 && b < 2)
}

// judgeSettings judges what CONFIG GET says about keeping data on disk.
func judgeSettings(s map[string]string) []Finding {
	var list []Finding
	aof, snapshots := s["appendonly"] == "yes", s["save"] != ""
	if aof && s["appendfsync"] == "always" {
		list = append(list, Finding{"appendfsync is always: each decision waits for its disk; set everysec", true})
	}
	if snapshots && s["stop-writes-on-bgsave-error"] == "yes" {
		list = append(list, Finding{Text: "stop-writes-on-bgsave-error is yes: when a snapshot fails, as on a full disk, it refuses to count"})
	}
	if !aof && !snapshots {
		list = append(list, Finding{Text: "it keeps nothing on disk: when it restarts without a replica, all limits begin afresh"})
	}
	return list
}
