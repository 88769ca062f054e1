package redisconn

import (
	"cmp"
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// poolSize is the default number of connections. A call occupies one for
	// one round trip; more would only wait within Redis, which runs one command
	// at a time.
	poolSize = 64
	// maxPoolSize is more than any Redis accepts from one client.
	maxPoolSize = 10_000
)

// clientOptions returns the options of a client of the server at a host. The
// client stays within the timeout and never repeats a call: a call that was
// counted but not answered would count twice.
func (a *Address) clientOptions(host string) *goredis.Options {
	timeout := a.options.Timeout
	c := &goredis.Options{
		Network: a.network, Addr: host, DB: a.db, Username: a.username, Password: a.password,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		PoolSize:        cmp.Or(a.poolSize, poolSize),
		Dialer:          dialer(timeout),
		DisableIdentity: true, // it would need commands that our user need not be granted
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
	if a.tls {
		c.Dialer = a.options.TLS.dialer(timeout)
	}
	return c
}

// ConnectNode returns a client of the server at a host, such as a node of a
// Cluster. It does not wait for a connection.
func (a *Address) ConnectNode(host string) *goredis.Client {
	return goredis.NewClient(a.clientOptions(host))
}

// Connect returns a client of the server at the address, or of the master that
// the Sentinels there name. It does not wait for a connection.
func (a *Address) Connect() *goredis.Client {
	if a.Kind == Single {
		return a.ConnectNode(a.Hosts[0])
	}
	c, o := a.clientOptions(""), &a.options
	return goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: a.master, SentinelAddrs: a.Hosts, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DB: c.DB, Username: c.Username, Password: c.Password, Dialer: c.Dialer,
		MaxRetries: c.MaxRetries, DialerRetries: c.DialerRetries, ContextTimeoutEnabled: true,
		DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, PoolTimeout: c.PoolTimeout,
		PoolSize: c.PoolSize, DisableIdentity: true,
	})
}

// LogClient passes the log messages of the Redis client library to log. They
// are mostly failed dials, which the errors of calls report too. It applies to
// the whole process; without it the messages go to standard error.
func LogClient(log func(message string)) { goredis.SetLogger(clientLog(log)) }

type clientLog func(message string)

// Printf implements the logger of the client library.
func (l clientLog) Printf(_ context.Context, format string, v ...any) {
	l(fmt.Sprintf(format, v...))
}

// ConnectAny returns a client of the deployment, a Cluster included. It may repeat a
// command at another node of a Cluster, so it must not count.
func (a *Address) ConnectAny() goredis.UniversalClient {
	if a.Kind != Cluster {
		return a.Connect()
	}
	c := a.clientOptions("")
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: a.Hosts, Username: c.Username, Password: c.Password, Dialer: c.Dialer,
		MaxRetries: c.MaxRetries, DialerRetries: c.DialerRetries, ContextTimeoutEnabled: true,
		DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, PoolTimeout: c.PoolTimeout,
		PoolSize: c.PoolSize, DisableIdentity: true, MaintNotificationsConfig: c.MaintNotificationsConfig,
	})
}
