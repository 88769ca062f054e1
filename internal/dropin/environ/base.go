package environ

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/config"
)

// Own returns the variables of koalagate's settings among environ, without the
// variables that only this package reads.
func Own(environ []string) []string {
	var own []string
	for _, entry := range environ {
		if strings.HasPrefix(entry, "KOALAGATE_") && !strings.HasPrefix(entry, "KOALAGATE_RATELIMIT_") || strings.HasPrefix(entry, "KOALAGATE_RATELIMIT_HEADERS=") {
			own = append(own, entry)
		}
	}
	return own
}

// Base returns the values of koalagate's settings that the variables mean, by key.
func (s *Settings) Base() (map[string]config.Based, error) {
	b := base{values: make(map[string]config.Based), set: s.set}
	b.address("http_addr", s.Host, s.Port, "PORT", "HOST")
	b.address("admin_addr", s.DebugHost, s.DebugPort, "DEBUG_PORT", "DEBUG_HOST")
	if s.GRPCUDS == "" {
		b.address("grpc_addr", s.GRPCHost, s.GRPCPort, "GRPC_PORT", "GRPC_HOST")
	} else {
		b.add("grpc_addr", "unix:"+s.GRPCUDS, "GRPC_UDS")
	}
	if s.GRPCUseTLS {
		b.add("grpc_tls_cert", s.GRPCCert, "GRPC_SERVER_TLS_CERT")
		b.add("grpc_tls_key", s.GRPCKey, "GRPC_SERVER_TLS_KEY")
		b.add("grpc_tls_client_ca", s.GRPCClientCA, "GRPC_CLIENT_TLS_CACERT")
	}
	b.add("grpc_max_connection_age", bounded(s.MaxConnectionAge, minAge, maxAge).String(), "GRPC_MAX_CONNECTION_AGE")
	b.add("grpc_max_connection_age_grace", bounded(s.MaxConnectionAgeGrace, minGrace, maxGrace).String(), "GRPC_MAX_CONNECTION_AGE_GRACE")
	b.add("near_limit_ratio", s.NearLimitRatio, "NEAR_LIMIT_RATIO")
	b.add("log_level", logLevels[strings.ToUpper(s.LogLevel)], "LOG_LEVEL")
	format := "text"
	if strings.EqualFold(s.LogFormat, "json") {
		format = "json"
	}
	b.add("log_format", format, "LOG_FORMAT")
	b.add("koala_api", "off", "")
	if err := s.Redis.base(&b); err != nil {
		return nil, err
	}
	return b.values, nil
}

// base collects values with the variables that they come from.
type base struct {
	values map[string]config.Based
	set    map[string]bool
}

// add adds a value, unless it is "". The first of the names that is set is its source.
func (b *base) add(key string, value any, names ...string) {
	if value == "" {
		return
	}
	v := config.Based{Value: value, Source: "default of ratelimit"}
	for _, name := range names {
		if b.set[name] {
			v.Source, v.IsSet = "environment "+name, true
			break
		}
	}
	b.values[key] = v
}

func (b *base) address(key, host string, port uint16, names ...string) {
	b.add(key, net.JoinHostPort(host, strconv.Itoa(int(port))), names...)
}

// base adds the values of the store.
func (r *Redis) base(b *base) error {
	url, err := r.address()
	if err != nil {
		return err
	}
	b.add("redis", url, "REDIS_URL")
	user, password := r.user()
	b.add("redis_username", user, "REDIS_AUTH")
	b.add("redis_password", password, "REDIS_AUTH")
	sentinelUser, sentinelPassword, hasUser := strings.Cut(r.SentinelAuth, ":")
	if !hasUser {
		sentinelUser, sentinelPassword = "", r.SentinelAuth
	}
	if strings.EqualFold(r.Type, "sentinel") {
		b.add("redis_sentinel_username", sentinelUser, "REDIS_SENTINEL_AUTH")
		b.add("redis_sentinel_password", sentinelPassword, "REDIS_SENTINEL_AUTH")
	}
	if r.TLS {
		b.add("redis_tls_ca", r.CA, "REDIS_TLS_CACERT")
		b.add("redis_tls_cert", r.Cert, "REDIS_TLS_CLIENT_CERT")
		b.add("redis_tls_key", r.Key, "REDIS_TLS_CLIENT_KEY")
	}
	if prefix := strings.TrimRight(r.Prefix, ":_"); prefix != "" {
		b.add("redis_prefix", prefix, "CACHE_KEY_PREFIX")
	}
	return nil
}

// user returns the user and the password.
func (r *Redis) user() (user, password string) {
	user, password, found := strings.Cut(r.Auth, ":")
	if !found {
		return "", r.Auth
	}
	return user, password
}

// address returns the URL of Redis as koalagate spells it.
func (r *Redis) address() (string, error) {
	scheme := "redis"
	if r.TLS {
		scheme = "rediss"
	}
	hosts := strings.ReplaceAll(r.URL, " ", "")
	switch strings.ToLower(r.Type) {
	case "single":
		switch {
		case strings.Contains(r.URL, "://"):
			return r.URL, nil
		case r.SocketType == "unix" || strings.HasPrefix(r.URL, "/"):
			return "unix://" + r.URL, nil
		}
		return scheme + "://" + r.URL, nil
	case "cluster":
		return scheme + "-cluster://" + hosts, nil
	case "sentinel":
		master, sentinels, found := strings.Cut(hosts, ",")
		if !found || master == "" || sentinels == "" {
			return "", errors.New("REDIS_URL of a sentinel names no sentinel; want MASTER,HOST:PORT,HOST:PORT…")
		}
		return scheme + "-sentinel://" + sentinels + "/" + master, nil
	}
	return "", fmt.Errorf("REDIS_TYPE is %q; want SINGLE, CLUSTER or SENTINEL", r.Type)
}
