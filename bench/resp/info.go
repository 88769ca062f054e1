package resp

import (
	"context"
	"strconv"
	"strings"
)

// State is the state in INFO.
type State struct {
	Version string
	Memory  int64 // bytes, without the buffers of connections
	In, Out int64 // bytes from and to the network so far
	// Commands is the number of calls of each command so far, also by scripts.
	Commands map[string]int64
	// Changes is the number of keys written so far.
	Changes int64
	// Logged is the size of the log of changes, in bytes; 0 without appendonly.
	Logged int64
}

// Scripts returns the number of script calls so far.
func (s *State) Scripts() int64 { return s.Commands["evalsha"] + s.Commands["eval"] }

// StateOf returns the state of the Redis at an address; the zero state for "".
func StateOf(ctx context.Context, address string) (State, error) {
	if address == "" {
		return State{}, nil
	}
	c, err := Dial(ctx, address)
	if err != nil {
		return State{}, err
	}
	defer c.Close()
	text, err := c.Do("INFO", "all")
	return ParseInfo(text), err
}

// ParseInfo reads the reply of INFO all. What is missing is 0.
func ParseInfo(text string) State {
	fields, s := map[string]string{}, State{Commands: map[string]int64{}}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	s.Version = fields["redis_version"]
	s.Memory = number("used_memory") - number("mem_clients_normal")
	s.In, s.Out = number("total_net_input_bytes"), number("total_net_output_bytes")
	s.Changes, s.Logged = number("rdb_changes_since_last_save"), number("aof_current_size")
	for field, value := range fields {
		if name, is := strings.CutPrefix(field, "cmdstat_"); is {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			s.Commands[name], _ = strconv.ParseInt(calls, 10, 64)
		}
	}
	return s
}
