package store

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// shape is how the Redis behind an address is made up.
type shape int

const (
	single   shape = iota // one server, or a proxy that looks like one
	sentinel              // one master at a time, which Sentinels know
	cluster               // masters that share the slots
)

// address is what a URL says of a Redis.
type address struct {
	shape              shape
	network            string   // tcp or unix
	hosts              []string // servers, Sentinels or nodes, host:port each; one path for unix
	master             string   // the name by which the Sentinels know it
	db                 int
	username, password string
	tls                bool
	poolSize           int
}

// schemes are the forms of a URL.
var schemes = map[string]address{
	"redis":           {shape: single, network: "tcp"},
	"rediss":          {shape: single, network: "tcp", tls: true},
	"unix":            {shape: single, network: "unix"},
	"redis-sentinel":  {shape: sentinel, network: "tcp"},
	"rediss-sentinel": {shape: sentinel, network: "tcp", tls: true},
	"redis-cluster":   {shape: cluster, network: "tcp"},
	"rediss-cluster":  {shape: cluster, network: "tcp", tls: true},
}

// The ports where the URL names none.
const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

const wantURL = "redis://[user:password@]host:port[/db], unix:///path, redis-sentinel://host:port,…/master[/db] or redis-cluster://host:port,…; rediss… in place of redis… for TLS"

// parseAddress reads a URL. Its errors quote nothing that may be a password.
func parseAddress(text string) (*address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	a, known := schemes[scheme]
	if !known {
		return nil, errors.New("want " + wantURL)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return nil, errors.New("there is a @ behind the first ?: write a ? in a user or password as %3F")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if a.network == "unix" {
		path = "/" + path
	}
	if strings.Contains(path, "@") && a.network != "unix" {
		return nil, errors.New("there is a @ behind the first /: write a / in a user or password as %2F")
	}
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at], authority[at+1:]
	}
	if err := a.setUser(user); err != nil {
		return nil, err
	}
	if err := errors.Join(a.setHosts(hosts, path), a.setPath(path), a.setQuery(query)); err != nil {
		return nil, err
	}
	return &a, nil
}

func (a *address) setUser(text string) error {
	name, password, _ := strings.Cut(text, ":")
	var err, err2 error
	a.username, err = url.PathUnescape(name)
	a.password, err2 = url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("the user or the password has a % that is no %XX: write a % as %25")
	}
	return nil
}

func (a *address) setHosts(list, path string) error {
	if a.network == "unix" {
		if list != "" || path == "/" {
			return errors.New("want a path behind three slashes: unix:///run/redis.sock")
		}
		a.hosts = []string{path}
		return nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		host, err := a.host(entry)
		if err != nil {
			return err
		}
		a.hosts = append(a.hosts, host)
	}
	if a.shape == single && len(a.hosts) > 1 {
		return errors.New("several hosts: want redis-cluster:// for the nodes of a Cluster, or redis-sentinel:// and the master's name")
	}
	return nil
}

// host is an entry of the list with its port. Where there is no @ the port may be
// a password, and is not quoted.
func (a *address) host(entry string) (string, error) {
	port := redisPort
	if a.shape == sentinel {
		port = sentinelPort
	}
	host := entry
	if h, p, err := net.SplitHostPort(entry); err == nil {
		host, port = h, p
	} else if strings.Count(entry, ":") == 1 {
		return "", fmt.Errorf("host %q: want host:port", entry)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" && a.shape != single || strings.ContainsAny(host, " \t[]") {
		return "", fmt.Errorf("host %q: want host:port", host)
	}
	if host == "" {
		host = "localhost"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("host %q: its port is no number from 1 to 65535", host)
	}
	return net.JoinHostPort(host, port), nil
}

// setPath reads the master and the number of the database.
func (a *address) setPath(path string) error {
	if a.network == "unix" {
		return nil
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if a.shape == sentinel {
		if len(parts) == 0 {
			return errors.New("the master's name is missing: want redis-sentinel://host:port/mymaster")
		}
		master, err := url.PathUnescape(parts[0])
		if err != nil {
			return errors.New("the master's name has a % that is no %XX")
		}
		a.master, parts = master, parts[1:]
	}
	switch {
	case len(parts) > 1:
		return fmt.Errorf("the path %q has too many parts: want a database number", "/"+path)
	case len(parts) == 1:
		return a.setDatabase(parts[0])
	}
	return nil
}

func (a *address) setDatabase(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("the database %q is no number: want 0 or more, as in redis://host:port/0", text)
	}
	if n > 0 && a.shape == cluster {
		return fmt.Errorf("the database %d: a Cluster has database 0 alone", n)
	}
	a.db = n
	return nil
}

// setQuery reads what a unix socket has no path for, and the size of the pool.
func (a *address) setQuery(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("what follows the ? cannot be read: want name=value")
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch value := values.Get(name); name {
		case "db":
			faults = append(faults, a.setDatabase(value))
		case "pool_size":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxPoolSize {
				faults = append(faults, fmt.Errorf("pool_size %q: want 1 … %d", value, maxPoolSize))
			}
			a.poolSize = n
		default:
			faults = append(faults, fmt.Errorf("unknown option %q: there are db and pool_size", name))
		}
	}
	return errors.Join(faults...)
}
