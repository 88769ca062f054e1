// Package redisconn connects to Redis servers. It checks their addresses, reads
// their version, settings and clock, and classifies their errors. It knows
// nothing about counters.
//
// Options hold a URL and credentials; NewAddress checks them and returns an
// Address, which makes clients that never repeat a call. Remedy, TimedOut and
// Unreachable classify the errors of calls. Inspect, ReadClock and Clear work on
// a client of one server; packages redis and cluster call them for one server
// and for every node of a Redis Cluster. Call and HashScan are for what
// instances share besides counters.
package redisconn

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Options describe where Redis is and how to connect to it.
type Options struct {
	// URL is the address of Redis: redis://user:password@host:6379/0,
	// unix:///path (with ?db=1), redis-sentinel://host:26379,host:26379/master/0,
	// whose user and password are the master's, or
	// redis-cluster://host:port,host:port with some of the nodes. A scheme that
	// begins with rediss instead of redis uses TLS, to the Sentinels too.
	// ?pool_size= sets the number of connections, 64 by default.
	URL string
	// Username and Password are the credentials for Redis if the URL contains none.
	Username, Password string
	// SentinelUsername and SentinelPassword log in to the Sentinels.
	SentinelUsername, SentinelPassword string
	// TLS are the files for a URL with rediss.
	TLS TLSFiles
	// Timeout bounds each dial, read, write and wait for a connection.
	Timeout time.Duration
}

// TLSFiles are PEM files for connections with TLS. Every new connection reads
// them, so that renewing a certificate needs no restart.
type TLSFiles struct {
	// CA holds the authorities that may have signed Redis's certificate; ""
	// for the authorities of the system.
	CA string
	// Cert and Key are the client certificate for a Redis that requests one; ""
	// for none.
	Cert, Key string
	// ServerName is the name in Redis's certificate; "" for the host that is
	// dialed. Sentinels and Clusters often name hosts by IP address.
	ServerName string
	// AnyName accepts a certificate for any name, if its authority is trusted.
	AnyName bool
}

// OptionError reports an invalid option.
type OptionError struct {
	Option string // the field's name, as in TLS.CA
	Err    error  // quotes no password
}

func (e *OptionError) Error() string { return fmt.Sprintf("redis %s: %v", e.Option, e.Err) }

// Unwrap returns what is invalid about the option.
func (e *OptionError) Unwrap() error { return e.Err }

func invalid(option, format string, v ...any) error {
	return &OptionError{option, fmt.Errorf(format, v...)}
}

// NewAddress checks the options, as far as possible without connecting, and
// returns the address that they describe. The error joins OptionErrors.
func NewAddress(o Options) (*Address, error) {
	a, err := parseURL(o.URL)
	if err != nil {
		return nil, &OptionError{"URL", err}
	}
	var faults []error
	if o.Username != "" && a.username != "" {
		faults = append(faults, invalid("Username", "the URL names a user too; remove one of them"))
	}
	if o.Password != "" && a.password != "" {
		faults = append(faults, invalid("Password", "the URL contains a password too; remove one of them"))
	}
	a.username, a.password = cmp.Or(o.Username, a.username), cmp.Or(o.Password, a.password)
	if a.username != "" && a.password == "" {
		faults = append(faults, invalid("Password", "user without a password"))
	}
	if a.Kind != Sentinel && (o.SentinelUsername != "" || o.SentinelPassword != "") {
		faults = append(faults, invalid("SentinelPassword", "only supported with a redis-sentinel:// URL"))
	}
	if o.TLS != (TLSFiles{}) && !a.tls {
		faults = append(faults, invalid("TLS", "the URL does not use TLS; want rediss://, rediss-sentinel:// or rediss-cluster://"))
	} else if a.tls {
		_, err := o.TLS.config("")
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	a.options = o
	return a, nil
}

// config reads the files. host is the one that is dialed.
func (f *TLSFiles) config(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: cmp.Or(f.ServerName, host), MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, &OptionError{"TLS.CA", err}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, invalid("TLS.CA", "%s contains no certificate; want PEM", f.CA)
		}
	}
	if f.AnyName {
		c.InsecureSkipVerify = true // replaced by verifyChain
		c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(c.RootCAs, s) }
	}
	switch {
	case f.Cert == "" && f.Key == "":
	case f.Key == "":
		return nil, invalid("TLS.Key", "the certificate's key is missing")
	case f.Cert == "":
		return nil, invalid("TLS.Cert", "the key's certificate is missing")
	default:
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, &OptionError{"TLS.Cert", err}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// verifyChain verifies the certificates of a server without its name.
func verifyChain(roots *x509.CertPool, s tls.ConnectionState) error {
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

// CheckClient refuses a client that repeats calls, as far as its options show
// it, and one that chooses among servers by itself. The error is an OptionError.
func CheckClient(client goredis.UniversalClient) error {
	switch c := client.(type) {
	case *goredis.Client:
		if n := c.Options().MaxRetries; n > 0 {
			return invalid("Client", "it repeats a call up to %d times, and each may count; want MaxRetries -1", n)
		}
	case *goredis.ClusterClient, *goredis.Ring:
		return invalid("Client", "it repeats calls on other nodes, and each may count; use the Cluster's URL instead")
	}
	return nil
}

// Misplaced returns an OptionError if an error of Redis shows that the URL can
// never lead to counters, whatever the state of the server; else nil.
func Misplaced(err error) error {
	var reply goredis.Error
	switch {
	case !errors.As(err, &reply):
		return nil
	case strings.Contains(reply.Error(), "DB index is out of range"):
		return invalid("URL", "this Redis has no database of that number; want 0 up to its setting databases less 1")
	case strings.Contains(reply.Error(), "SELECT is not allowed in cluster mode"):
		return invalid("URL", "this Redis is a node of a Cluster, which has only database 0")
	}
	return nil
}
