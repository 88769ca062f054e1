package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// TLSFiles are PEM files for connections with TLS. They are read with each new
// connection, so that a certificate that is renewed needs no restart.
type TLSFiles struct {
	// CA is the authorities that Redis's certificate may come from; "" for
	// those of the system.
	CA string
	// Cert and Key are what a Redis that asks for it is shown; "" for nothing.
	Cert, Key string
	// ServerName is the name in Redis's certificate; "" for the host that is
	// called. Sentinels and Clusters often name hosts by address.
	ServerName string
}

const (
	// poolSize is the number of connections. A call holds one for one round
	// trip; more would only wait within Redis, which does one at a time.
	poolSize = 64
	// maxPoolSize is more than any Redis wants of one caller.
	maxPoolSize = 10_000
)

// OptionError tells which of the RedisOptions is wrong.
type OptionError struct {
	Option string // the field's name, as in TLS.CA
	Err    error  // quotes no password
}

func (e *OptionError) Error() string { return fmt.Sprintf("redis %s: %v", e.Option, e.Err) }

// Unwrap is what is wrong.
func (e *OptionError) Unwrap() error { return e.Err }

func fault(option, format string, v ...any) error {
	return &OptionError{option, fmt.Errorf(format, v...)}
}

// Validate tells what is wrong with the options that say where Redis is, as
// far as that can be told without asking it. The error joins OptionErrors.
func (o *RedisOptions) Validate() error {
	if o.Client != nil {
		return checkClient(o.Client)
	}
	_, err := o.address()
	return err
}

// address is where Redis is, by the URL and the options that go with it.
func (o *RedisOptions) address() (*address, error) {
	a, err := parseAddress(o.URL)
	if err != nil {
		return nil, &OptionError{"URL", err}
	}
	var faults []error
	if o.Username != "" && a.username != "" {
		faults = append(faults, fault("Username", "the URL names a user too; leave one of them out"))
	}
	if o.Password != "" && a.password != "" {
		faults = append(faults, fault("Password", "the URL holds a password too; leave one of them out"))
	}
	a.username, a.password = cmp.Or(o.Username, a.username), cmp.Or(o.Password, a.password)
	if a.username != "" && a.password == "" {
		faults = append(faults, fault("Password", "there is a user without a password"))
	}
	if a.shape != sentinel && (o.SentinelUsername != "" || o.SentinelPassword != "") {
		faults = append(faults, fault("SentinelPassword", "the URL is none of redis-sentinel://"))
	}
	if a.shape != cluster && o.FixedTag {
		faults = append(faults, fault("FixedTag", "the URL is none of redis-cluster://"))
	}
	if o.TLS != (TLSFiles{}) && !a.tls {
		faults = append(faults, fault("TLS", "the URL asks for no TLS: want rediss://, rediss-sentinel:// or rediss-cluster://"))
	} else if a.tls {
		_, err := o.TLS.config("")
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return a, nil
}

// config reads the files. host is the one that is called.
func (f *TLSFiles) config(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: cmp.Or(f.ServerName, host), MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, &OptionError{"TLS.CA", err}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fault("TLS.CA", "%s holds no certificate; want PEM", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
	case f.Key == "":
		return nil, fault("TLS.Key", "the certificate's key is missing")
	case f.Cert == "":
		return nil, fault("TLS.Cert", "the key's certificate is missing")
	default:
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, &OptionError{"TLS.Cert", err}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// options are those of a client of the server at a host. It gives up in time
// and never repeats a call: one that was counted and not answered would count
// twice.
func (a *address) options(o *RedisOptions, host string) *redis.Options {
	c := &redis.Options{
		Network: a.network, Addr: host, DB: a.db, Username: a.username, Password: a.password,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: o.Budget, ReadTimeout: o.Budget, WriteTimeout: o.Budget, PoolTimeout: o.Budget,
		PoolSize:        cmp.Or(a.poolSize, poolSize),
		Dialer:          dialer(o.Budget),
		DisableIdentity: true, // it would take commands that a user of ours need not have
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
	if a.tls {
		c.Dialer = o.TLS.dialer(o.Budget)
	}
	return c
}

// connect makes a client of the server at the address, or of the master that
// the Sentinels there name.
func (a *address) connect(o *RedisOptions) *redis.Client {
	if a.shape == single {
		return redis.NewClient(a.options(o, a.hosts[0]))
	}
	c := a.options(o, "")
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: a.master, SentinelAddrs: a.hosts, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DB: c.DB, Username: c.Username, Password: c.Password, Dialer: c.Dialer,
		MaxRetries: c.MaxRetries, DialerRetries: c.DialerRetries, ContextTimeoutEnabled: true,
		DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, PoolTimeout: c.PoolTimeout,
		PoolSize: c.PoolSize, DisableIdentity: true,
	})
}

// Misplaced is what an error of Redis says of the URL: that it can never lead
// to counters, whatever becomes of the server. It is nil for all else, and else
// an OptionError.
func Misplaced(err error) error {
	var reply redis.Error
	switch {
	case !errors.As(err, &reply):
		return nil
	case strings.Contains(reply.Error(), "DB index is out of range"):
		return fault("URL", "that Redis has no database of this number: want one from 0 to its setting databases less 1")
	case strings.Contains(reply.Error(), "SELECT is not allowed in cluster mode"):
		return fault("URL", "that Redis is a node of a Cluster, which has database 0 alone")
	}
	return nil
}

// LogClient has log called with what the Redis client has to say for itself:
// failed dials mostly, which the errors of calls tell too. It holds for the
// whole process, whose standard error gets these lines otherwise.
func LogClient(log func(message string)) { redis.SetLogger(clientLog(log)) }

type clientLog func(message string)

// Printf is what the client calls.
func (l clientLog) Printf(_ context.Context, format string, v ...any) {
	l(fmt.Sprintf(format, v...))
}

// checkClient refuses a client that repeats calls, as far as that can be seen,
// and one that chooses among servers by itself.
func checkClient(client redis.UniversalClient) error {
	switch c := client.(type) {
	case *redis.Client:
		if n := c.Options().MaxRetries; n > 0 {
			return fault("Client", "it repeats a call up to %d times, and each may count; want MaxRetries -1", n)
		}
	case *redis.ClusterClient, *redis.Ring:
		return fault("Client", "it repeats calls on other nodes, and each may count; give the Cluster's URL instead")
	}
	return nil
}
