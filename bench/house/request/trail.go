package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// trail is what a request leaves beside the coverage counters.
type trail struct {
	Stacks []byte // of all goroutines while the request waits for Redis
	Script string // that Redis runs
	Lines  []int  // of the script that Redis ran, from 1
}

// observer sees what Redis carries out.
type observer struct {
	client  *goredis.Client
	monitor *bufio.Reader // the replies of MONITOR
	marks   int
}

// observe begins to monitor the Redis at an address. The caller must call close.
func observe(ctx context.Context, address string) (o *observer, closed func(), err error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	o = &observer{client: goredis.NewClient(&goredis.Options{Addr: address}), monitor: bufio.NewReader(connection)}
	_, err = connection.Write([]byte("MONITOR\r\n"))
	return o, func() { o.client.Close(); connection.Close() }, err
}

var argument = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// commands returns the commands that Redis has carried out since the last call.
func (o *observer) commands(ctx context.Context) (list [][]string, err error) {
	o.marks++
	mark := fmt.Sprint("mark ", o.marks)
	if err := o.client.Echo(ctx, mark).Err(); err != nil {
		return nil, err
	}
	for {
		line, err := o.monitor.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("monitoring Redis: %w", err)
		}
		var command []string
		for _, quoted := range argument.FindAllString(line, -1) {
			text, err := strconv.Unquote(quoted) // Redis escapes as Go does
			if err != nil {
				return nil, fmt.Errorf("monitoring Redis: %s: %w", quoted, err)
			}
			command = append(command, text)
		}
		switch {
		case len(command) == 2 && command[1] == mark:
			return list, nil
		case len(command) > 0:
			list = append(list, command)
		}
	}
}

// calls returns the calls of scripts among commands, without those that send the text.
func calls(commands [][]string) [][]string {
	return slices.DeleteFunc(commands, func(c []string) bool { return !strings.EqualFold(c[0], "evalsha") })
}

// attempts is how often follow makes its request: background work calls scripts, too.
const attempts = 10

// follow makes a request that calls one script, and returns its trail. earlier are the
// commands before it, which include the text of the script.
func (o *observer) follow(ctx context.Context, earlier [][]string, ask func() error) (*trail, error) {
	for range attempts {
		stacks, err := o.stacksDuring(ctx, ask)
		if err != nil {
			return nil, err
		}
		now, err := o.commands(ctx)
		if err != nil {
			return nil, err
		}
		called := calls(now)
		if len(called) != 1 {
			continue
		}
		t := &trail{Stacks: stacks}
		for _, c := range earlier {
			if strings.EqualFold(c[0], "eval") && goredis.NewScript(c[1]).Hash() == called[0][1] {
				t.Script = c[1]
			}
		}
		t.Lines, err = o.step(ctx, t.Script, called[0][2:])
		return t, err
	}
	return nil, errors.New("no request called a script exactly once")
}

// stacksDuring returns the stacks of all goroutines while a request waits for Redis, which
// pauses for it.
func (o *observer) stacksDuring(ctx context.Context, ask func() error) ([]byte, error) {
	const pause = 100 * time.Millisecond
	if err := o.client.ClientPause(ctx, pause).Err(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- ask() }()
	stacks := make([]byte, 1<<20)
	for {
		select {
		case err := <-done:
			return nil, errors.Join(errors.New("the request did not wait for Redis"), err)
		case <-time.After(rest):
		}
		now := stacks[:runtime.Stack(stacks, true)]
		for stack := range bytes.SplitSeq(now, []byte("\n\n")) {
			if bytes.Contains(stack, []byte("internal/store/")) && bytes.Contains(stack, []byte("go-redis/v9.(*baseClient)")) {
				return now, <-done
			}
		}
	}
}

var stoppedAt = regexp.MustCompile(`^\* Stopped at (\d+)`)

// step runs a script in the debugger of Redis, and returns the numbers of the lines that
// it ran, in ascending order.
func (o *observer) step(ctx context.Context, script string, arguments []string) (lines []int, err error) {
	// Redis closes the connection at the end of a session, so no other may get it.
	debugger := goredis.NewClient(&goredis.Options{Addr: o.client.Options().Addr})
	defer debugger.Close()
	session := debugger.Conn()
	defer session.Close()
	if err := session.Do(ctx, "script", "debug", "sync").Err(); err != nil {
		return nil, err
	}
	command := []any{"eval", script}
	for _, a := range arguments {
		command = append(command, a)
	}
	for ; ; command = []any{"step"} {
		said, err := session.Do(ctx, command...).StringSlice()
		if err != nil {
			return nil, fmt.Errorf("the debugger of Redis: %w", err)
		}
		for _, line := range said {
			if m := stoppedAt.FindStringSubmatch(line); m != nil {
				n, _ := strconv.Atoi(m[1]) // digits
				lines = append(lines, n)
			}
		}
		if slices.Contains(said, "<endsession>") {
			slices.Sort(lines)
			return slices.Compact(lines), nil
		}
	}
}
