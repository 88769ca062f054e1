package e2e

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Redis is a Redis server without persistence.
type Redis struct {
	*Program
	Address string // host:port
}

// URL returns the value for `--redis`.
func (r *Redis) URL() string { return "redis://" + r.Address }

// Redis starts a Redis server.
func (s *Stage) Redis() (*Redis, error) {
	path, err := s.Find("redis-server")
	if err != nil {
		return nil, err
	}
	port, err := s.choosePort(6379)
	if err != nil {
		return nil, err
	}
	return s.redisAt(path, port)
}

// RestartRedis starts a Redis server at the address of another one, which must
// have exited.
func (s *Stage) RestartRedis(old *Redis) (*Redis, error) {
	path, err := s.Find("redis-server")
	if err != nil {
		return nil, err
	}
	_, text, err := net.SplitHostPort(old.Address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	return s.redisAt(path, port)
}

func (s *Stage) redisAt(path string, port int) (*Redis, error) {
	p, err := s.start("redis-server", path, s.RedisEnviron,
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	if err != nil {
		return nil, err
	}
	r := &Redis{Program: p, Address: fmt.Sprintf("127.0.0.1:%d", port)}
	return r, eventually(p, r.ping)
}

// ping speaks the protocol directly: only the store may import the Redis client.
func (r *Redis) ping() error {
	conn, err := net.DialTimeout("tcp", r.Address, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "+PONG") {
		err = fmt.Errorf("redis answers PING with %q", line)
	}
	return err
}
