// Package resp talks to a Redis server without a client library, so that measurements do
// not depend on the client under test.
package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// maxWait is the maximum time of an exchange: a hanging server ends the measurement.
const maxWait = 10 * time.Second

// Conn is a connection to a Redis server. It is not safe for concurrent use.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to a server on this machine.
func Dial(ctx context.Context, address string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, bufio.NewReader(conn)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Write sends commands in wire form.
func (c *Conn) Write(commands []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(maxWait)); err != nil {
		return err
	}
	_, err := c.conn.Write(commands)
	return err
}

// Do sends a command and returns its reply: the text of a bulk string, or a line with its
// type as the first byte. An error of the server is an error.
func (c *Conn) Do(args ...string) (string, error) {
	if err := c.Write(Command(args...)); err != nil {
		return "", err
	}
	reply, err := c.Read()
	if err == nil && strings.HasPrefix(reply, "-") {
		err = errors.New(reply)
	}
	if err != nil {
		return "", fmt.Errorf("redis, %s: %w", args[0], err)
	}
	return reply, nil
}

// Read returns the next reply as Do does. Only the length of an array is read.
func (c *Conn) Read() (string, error) {
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
		return "", fmt.Errorf("the reply begins with %q", head)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

// Clock returns the time of the server.
func (c *Conn) Clock() (time.Time, error) {
	if _, err := c.Do("TIME"); err != nil {
		return time.Time{}, err
	}
	var numbers [2]int64 // seconds and microseconds
	for i := range numbers {
		text, err := c.Read()
		if err != nil {
			return time.Time{}, err
		}
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return time.Time{}, fmt.Errorf("redis, TIME: %w", err)
		}
	}
	return time.Unix(numbers[0], numbers[1]*1000), nil
}

// Command returns a command in wire form.
func Command(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// maxArgs and maxArg bound the commands that ReadCommand accepts: the number of arguments
// and the length of each.
const (
	maxArgs = 10_000
	maxArg  = 16 << 20
)

// ReadCommand reads a command in wire form, and returns its arguments and its bytes.
func ReadCommand(in *bufio.Reader) (args []string, raw []byte, err error) {
	number := func(kind byte, most int) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		raw = append(raw, line...)
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		if line[0] != kind || err != nil || n < 0 || n > most {
			return 0, fmt.Errorf("a command contains the line %q; want %c and a number up to %d", line, kind, most)
		}
		return n, nil
	}
	n, err := number('*', maxArgs)
	for range n {
		size, err := number('$', maxArg)
		if err != nil {
			return nil, nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, nil, err
		}
		args, raw = append(args, string(text[:size])), append(raw, text...)
	}
	return args, raw, err
}
