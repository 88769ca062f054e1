package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// RateLimit starts an instance in the place of envoyproxy/ratelimit: under the name
// ratelimit, with the argument that Agent Router passes to it, on free ports. It waits
// until the instance is healthy. Env contains its variables.
func (s *Stage) RateLimit(binary string, env ...string) (*Koalagate, error) {
	k, err := s.ServeRateLimit(binary, env...)
	if err != nil {
		return nil, err
	}
	return k, eventually(k.Program, k.healthy)
}

// ServeRateLimit is RateLimit without waiting.
func (s *Stage) ServeRateLimit(binary string, env ...string) (*Koalagate, error) {
	link := filepath.Join(s.dir, "ratelimit")
	if err := os.Symlink(binary, link); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	env = slices.Concat([]string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0",
		"LOG_LEVEL=info", "LOG_FORMAT=json", "USE_STATSD=false", "REDIS_SOCKET_TYPE=tcp",
	}, env)
	p, err := s.start("ratelimit", link, env, "--quotaRateLimitServiceAddr=ignored")
	return &Koalagate{Program: p}, err
}

// healthy returns an error unless the instance answers /healthcheck.
func (k *Koalagate) healthy() error {
	if k.HTTP == "" && !k.ReadAddresses() {
		return errors.New("no addresses in the log yet")
	}
	body, err := get("http://" + k.HTTP + "/healthcheck")
	if err == nil && string(body) != "OK" {
		err = fmt.Errorf("/healthcheck answers %q", body)
	}
	return err
}

// Page returns a page of the debug address.
func (k *Koalagate) Page(path string) (string, error) {
	body, err := get("http://" + k.Admin + path)
	return string(body), err
}
