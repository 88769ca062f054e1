package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/bench/process"
)

// redisConn queries the state of Redis without a client library, so that measurements
// do not depend on the client under test.
type redisConn struct {
	net.Conn
	in *bufio.Reader
}

func dialRedis(ctx context.Context, address string) (*redisConn, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &redisConn{conn, bufio.NewReader(conn)}, nil
}

// bulk sends a command and returns its reply as text.
func (c *redisConn) bulk(command string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(maxWait)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		return "", err
	}
	head, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	head = strings.TrimSpace(head)
	size, isBulk := strings.CutPrefix(head, "$")
	if !isBulk {
		return head, nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return "", fmt.Errorf("redis answered %s with %q", command, head)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

// clock returns the time of Redis.
func (c *redisConn) clock() (time.Time, error) {
	head, err := c.bulk("TIME")
	if err != nil {
		return time.Time{}, err
	}
	var numbers [2]int64 // seconds and microseconds
	for i := range numbers {
		if _, err := c.in.ReadString('\n'); err != nil { // the length
			return time.Time{}, err
		}
		line, err := c.in.ReadString('\n')
		if err != nil {
			return time.Time{}, err
		}
		if numbers[i], err = strconv.ParseInt(strings.TrimSpace(line), 10, 64); err != nil {
			return time.Time{}, fmt.Errorf("redis answered TIME with %q, %w", head, err)
		}
	}
	return time.Unix(numbers[0], numbers[1]*1000), nil
}

// redisState is the state in INFO.
type redisState struct {
	memory  int64 // bytes, without the buffers of connections
	in, out int64 // bytes from and to the network so far
	scripts int64 // calls of a script so far
}

// stateOf returns the state of the Redis at an address; the zero state for "".
func stateOf(ctx context.Context, address string) (redisState, error) {
	var s redisState
	if address == "" {
		return s, nil
	}
	c, err := dialRedis(ctx, address)
	if err != nil {
		return s, err
	}
	defer c.Close()
	text, err := c.bulk("INFO all")
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(field(text, name), 10, 64) // 0 if missing
		return n
	}
	s.memory, s.in, s.out = number("used_memory")-number("mem_clients_normal"), number("total_net_input_bytes"), number("total_net_output_bytes")
	for _, name := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		n, _, _ := strings.Cut(strings.TrimPrefix(field(text, name), "calls="), ",")
		calls, _ := strconv.ParseInt(n, 10, 64) // as above
		s.scripts += calls
	}
	return s, err
}

// field returns a field of INFO, "" if it is missing.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// calibrate measures the CPU time of a plain INCR, 64 in a pipeline, on this machine, which
// shows how fast it is.
func calibrate(ctx context.Context, address string, redis process.ID, span time.Duration) (time.Duration, error) {
	c, err := dialRedis(ctx, address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(span + maxWait)); err != nil {
		return 0, err
	}
	const depth = 64
	pipeline := bytes.Repeat([]byte("*2\r\n$4\r\nINCR\r\n$9\r\ncalibrate\r\n"), depth)
	before, err := redis.CPU()
	if err != nil {
		return 0, err
	}
	calls := 0
	for end := time.Now().Add(span); time.Now().Before(end); calls += depth {
		if _, err := c.Write(pipeline); err != nil {
			return 0, err
		}
		for range depth {
			if _, err := c.in.ReadSlice('\n'); err != nil {
				return 0, err
			}
		}
	}
	after, err := redis.CPU()
	return (after - before) / time.Duration(calls), err
}
