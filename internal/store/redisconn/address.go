package redisconn

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

// Kind is the deployment of Redis behind an address.
type Kind int

// The kinds of deployment.
const (
	Single   Kind = iota // one server, or a proxy that acts like one
	Sentinel             // one master at a time, named by Sentinels
	Cluster              // masters that share the slots
)

// Address is a checked URL of Redis with its credentials.
type Address struct {
	Kind               Kind
	Hosts              []string // servers, Sentinels or nodes, each host:port; one path for unix
	network            string   // tcp or unix
	master             string   // the master's name in the Sentinels
	db                 int
	username, password string
	tls                bool
	poolSize           int     // 0 for the default
	options            Options // the rest of them
}

// schemes are the supported schemes of a URL.
var schemes = map[string]Address{
	"redis":           {Kind: Single, network: "tcp"},
	"rediss":          {Kind: Single, network: "tcp", tls: true},
	"unix":            {Kind: Single, network: "unix"},
	"redis-sentinel":  {Kind: Sentinel, network: "tcp"},
	"rediss-sentinel": {Kind: Sentinel, network: "tcp", tls: true},
	"redis-cluster":   {Kind: Cluster, network: "tcp"},
	"rediss-cluster":  {Kind: Cluster, network: "tcp", tls: true},
}

// The default ports.
const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

const wantURL = "redis://[user:password@]host:port[/db], unix:///path, redis-sentinel://host:port,…/master[/db] or redis-cluster://host:port,…; rediss… instead of redis… for TLS"

// parseURL parses a URL. Its errors quote nothing that may be a password.
func parseURL(text string) (*Address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	a, known := schemes[scheme]
	if !known {
		return nil, errors.New("want " + wantURL)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return nil, errors.New("@ after the first ?; write a ? in a user or password as %3F")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if a.network == "unix" {
		path = "/" + path
	}
	if strings.Contains(path, "@") && a.network != "unix" {
		return nil, errors.New("@ after the first /; write a / in a user or password as %2F")
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

func (a *Address) setUser(text string) error {
	name, password, _ := strings.Cut(text, ":")
	var err, err2 error
	a.username, err = url.PathUnescape(name)
	a.password, err2 = url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("invalid % in the user or password; write a % as %25")
	}
	return nil
}

func (a *Address) setHosts(list, path string) error {
	if a.network == "unix" {
		if list != "" || path == "/" {
			return errors.New("missing path; want three slashes before it: unix:///run/redis.sock")
		}
		a.Hosts = []string{path}
		return nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		host, err := a.host(entry)
		if err != nil {
			return err
		}
		a.Hosts = append(a.Hosts, host)
	}
	if a.Kind == Single && len(a.Hosts) > 1 {
		return errors.New("several hosts; want redis-cluster:// for the nodes of a Cluster, or redis-sentinel:// with the master's name")
	}
	return nil
}

// host parses an entry of the list and adds the default port. Its errors do not
// quote the port: in a URL without @ it may be a password.
func (a *Address) host(entry string) (string, error) {
	port := redisPort
	if a.Kind == Sentinel {
		port = sentinelPort
	}
	host := entry
	if h, p, err := net.SplitHostPort(entry); err == nil {
		host, port = h, p
	} else if strings.Count(entry, ":") == 1 {
		return "", fmt.Errorf("host %q: want host:port", entry)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" && a.Kind != Single || strings.ContainsAny(host, " \t[]") {
		return "", fmt.Errorf("host %q: want host:port", host)
	}
	if host == "" {
		host = "localhost"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("host %q: invalid port; want 1 … 65535", host)
	}
	return net.JoinHostPort(host, port), nil
}

// setPath parses the name of the master and the number of the database.
func (a *Address) setPath(path string) error {
	if a.network == "unix" {
		return nil
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if a.Kind == Sentinel {
		if len(parts) == 0 {
			return errors.New("the master's name is missing; want redis-sentinel://host:port/mymaster")
		}
		master, err := url.PathUnescape(parts[0])
		if err != nil {
			return errors.New("invalid % in the master's name; write a % as %25")
		}
		a.master, parts = master, parts[1:]
	}
	switch {
	case len(parts) > 1:
		return fmt.Errorf("path %q has too many parts; want a database number", "/"+path)
	case len(parts) == 1:
		return a.setDatabase(parts[0])
	}
	return nil
}

func (a *Address) setDatabase(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("invalid database %q; want 0 or more, as in redis://host:port/0", text)
	}
	if n > 0 && a.Kind == Cluster {
		return fmt.Errorf("database %d; a Cluster has only database 0", n)
	}
	a.db = n
	return nil
}

// setQuery parses the database of a unix socket and the size of the pool.
func (a *Address) setQuery(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("invalid query after the ?; want name=value")
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
			faults = append(faults, fmt.Errorf("unknown option %q; want db or pool_size", name))
		}
	}
	return errors.Join(faults...)
}

// KindOf returns the kind of deployment that a URL's scheme names; false if the
// scheme is unknown.
func KindOf(url string) (Kind, bool) {
	scheme, _, _ := strings.Cut(url, "://")
	a, ok := schemes[scheme]
	return a.Kind, ok
}
