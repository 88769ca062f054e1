package redisconn

import (
	"context"
	"errors"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Finding is a fact about the setup of Redis that an operator should know.
type Finding struct {
	Text    string
	Warning bool // counters may be lost, or calls fail, in ordinary use
}

// Inspect reads the version and settings of the client's server and returns
// findings about settings that can lose counters or fail calls. If the user may
// not read them, the only finding is that. An error means that Redis did not
// answer; findings that were made before it are returned with it.
func Inspect(ctx context.Context, client goredis.UniversalClient) ([]Finding, error) {
	text, err := client.Info(ctx).Result()
	if err != nil {
		return denial("INFO", err)
	}
	list := checkInfo(ParseInfo(text))
	settings, err := client.ConfigGet(ctx, "*").Result()
	if err != nil {
		more, err := denial("CONFIG GET", err)
		return append(list, more...), err
	}
	return append(list, checkSettings(settings)...), nil
}

// ParseInfo returns the values in a reply of INFO by their names.
func ParseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info
}

// denial returns the finding that the user may not call a command, or err if it
// is another error. Managed Redis often has no CONFIG at all.
func denial(command string, err error) ([]Finding, error) {
	var reply goredis.Error
	if errors.As(err, &reply) && (denied(err) || strings.HasPrefix(reply.Error(), "ERR")) {
		return []Finding{{Text: "its user may not call " + command + ": its settings are not checked"}}, nil
	}
	return nil, err
}

// checkInfo checks the reply of INFO.
func checkInfo(info map[string]string) []Finding {
	var list []Finding
	if v := info["redis_version"]; tooOld(v) {
		list = append(list, Finding{"it is Redis " + v + "; want 6.2 or newer", true})
	}
	if info["role"] == "slave" {
		list = append(list, Finding{"it is a replica, which cannot count: name its master, or use the Sentinels that name it", true})
	}
	if policy := info["maxmemory_policy"]; info["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		list = append(list, Finding{"maxmemory-policy is " + policy + ": at maxmemory Redis drops counters, and their limits start from zero; set noeviction", true})
	}
	return list
}

// tooOld reports whether a version is below 6.2.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (a < 6 || a == 6 && b < 2)
}

// checkSettings checks the settings of persistence in the reply of CONFIG GET.
func checkSettings(s map[string]string) []Finding {
	var list []Finding
	aof, snapshots := s["appendonly"] == "yes", s["save"] != ""
	if aof && s["appendfsync"] == "always" {
		list = append(list, Finding{"appendfsync is always: each decision waits for the disk; set everysec", true})
	}
	if snapshots && s["stop-writes-on-bgsave-error"] == "yes" {
		list = append(list, Finding{Text: "stop-writes-on-bgsave-error is yes: after a failed snapshot, as on a full disk, it refuses to count"})
	}
	if !aof && !snapshots {
		list = append(list, Finding{Text: "it keeps nothing on disk: after a restart without a replica all limits start from zero"})
	}
	return list
}
