package remote_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestOpenCountsInEveryDeployment counts in a real Redis of each deployment.
func TestOpenCountsInEveryDeployment(t *testing.T) {
	const password = "p@ss/word%21"
	escaped := strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40").Replace(password)
	plain := storetest.StartNode(t, goredis.Options{}, "--unixsocket", "DIR/redis.sock")
	locked := storetest.StartNode(t, goredis.Options{Password: password}, "--requirepass", password)
	user := []any{"ACL", "SETUSER", "ann", "on", ">" + password, "~*", "+@all"}
	locked.MustDo(user...)
	files, secure := startTLS(t)
	watched := storetest.StartSentinels(t, 1, 1, password)
	for name, o := range map[string]redis.Options{
		"a host and port":            {URL: "redis://" + plain.Address},
		"a database":                 {URL: "redis://" + plain.Address + "/3"},
		"a unix socket":              {URL: "unix://" + filepath.Join(plain.Dir, "redis.sock")},
		"a database behind a socket": {URL: "unix://" + filepath.Join(plain.Dir, "redis.sock") + "?db=2"},
		"a pool of two":              {URL: "redis://" + plain.Address + "?pool_size=2"},
		"a password in the URL":      {URL: "redis://:" + escaped + "@" + locked.Address},
		"a separate password":        {URL: "redis://" + locked.Address, Password: password},
		"a user in the URL":          {URL: "redis://ann:" + escaped + "@" + locked.Address},
		"a separate user":            {URL: "redis://" + locked.Address, Username: "ann", Password: password},
		"TLS":                        {URL: "rediss://" + secure.Address, TLS: files},
		"Sentinel": {
			URL: watched.URL(), Password: password, SentinelPassword: password,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o.Budget = time.Minute
			r, err := remote.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.Check(context.Background()); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				a, err := take(r, name)
				if err != nil {
					t.Fatal(err)
				}
				if refused := a.Sets[0].Decider >= 0; refused != (i == 2) {
					t.Errorf("take %d of a limit of 2: refused is %v", i, refused)
				}
			}
		})
	}
}

// take takes a hit of a limit of 2.
func take(s store.Store, subject string) (store.Answers, error) {
	var a store.Answers
	rule := store.Rule{Subject: []byte(subject), Return: 1, Method: store.Count, Weight: 1, Time: 3600, Count: 2}
	err := s.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}, &a)
	return a, err
}

// serverName is the name in the certificates of writeCertificates.
const serverName = "redis.test"

// writeCertificates writes a new authority, ca.pem, and certificates that it signed
// to dir: server.pem, server.key, client.pem and client.key.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	ca, err := certs.NewAuthority("authority")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"ca.pem": ca.Cert}
	for _, owner := range []string{"server", "client"} {
		pair, err := ca.Sign(serverName)
		if err != nil {
			t.Fatal(err)
		}
		files[owner+".pem"], files[owner+".key"] = pair.Cert, pair.Key
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startTLS starts a Redis that accepts only TLS and requires a client certificate.
func startTLS(t *testing.T) (redisconn.TLSFiles, *storetest.Node) {
	dir := t.TempDir()
	writeCertificates(t, dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	files := redisconn.TLSFiles{CA: in("ca.pem"), Cert: in("client.pem"), Key: in("client.key"), ServerName: serverName}
	node := storetest.StartNode(t, goredis.Options{TLSConfig: tlsClient(t, files)}, "--tls-port", "PORT", "--port", "0",
		"--tls-cert-file", in("server.pem"), "--tls-key-file", in("server.key"), "--tls-ca-cert-file", in("ca.pem"))
	return files, node
}

// tlsClient returns the TLS configuration of a test's own client.
func tlsClient(t *testing.T, files redisconn.TLSFiles) *tls.Config {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
}

// TestRenewedTLSFilesAreUsed replaces all certificates while the store is open.
func TestRenewedTLSFilesAreUsed(t *testing.T) {
	files, node := startTLS(t)
	r, err := remote.Open(redis.Options{URL: "rediss://" + node.Address, TLS: files, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	node.Kill()
	writeCertificates(t, filepath.Dir(files.CA))
	node.SetClient(goredis.Options{TLSConfig: tlsClient(t, files)})
	node.Start()
	// Each connection that the old server closed fails at most one call.
	storetest.Eventually(t, func() error { return r.Check(context.Background()) })
	files.ServerName = "another.test"
	wrong, err := remote.Open(redis.Options{URL: "rediss://" + node.Address, TLS: files, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if err := wrong.Check(context.Background()); err == nil || !strings.Contains(err.Error(), serverName) {
		t.Errorf("a certificate for another name: %v", err)
	}
}

// TestOpenNamesInvalidOptions checks the error for each invalid option, which must
// not contain a password.
func TestOpenNamesInvalidOptions(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "absent.pem")
	for name, c := range map[string]struct {
		options redis.Options
		option  string
		want    string
	}{
		"no URL":                        {redis.Options{}, "URL", "want redis://"},
		"no scheme":                     {redis.Options{URL: "localhost:6379"}, "URL", "want redis://"},
		"another scheme":                {redis.Options{URL: "http://h"}, "URL", "want redis://"},
		"an invalid port":               {redis.Options{URL: "redis://u:s3cret@h:port/0"}, "URL", "invalid port; want"},
		"an invalid database":           {redis.Options{URL: "redis://u:s3cret@h/zero"}, "URL", `invalid database "zero"`},
		"a database below 0":            {redis.Options{URL: "redis://h/-1"}, "URL", `invalid database "-1"`},
		"a long path":                   {redis.Options{URL: "redis://h/1/2"}, "URL", "too many parts"},
		"a slash in a password":         {redis.Options{URL: "redis://:1/s3cret@h"}, "URL", "as %2F"},
		"a question mark in a password": {redis.Options{URL: "redis://u:s3cret?s3cret@h/0"}, "URL", "as %3F"},
		"a password without a host":     {redis.Options{URL: "redis://:s3cret"}, "URL", "invalid port; want"},
		"a percent in a password":       {redis.Options{URL: "redis://:s3cret%@h"}, "URL", "as %25"},
		"two hosts":                     {redis.Options{URL: "redis://:s3cret@one:1,two:2"}, "URL", "several hosts"},
		"an unknown query option":       {redis.Options{URL: "redis://h?max_retries=3"}, "URL", `unknown option "max_retries"`},
		"an empty pool":                 {redis.Options{URL: "redis://h?pool_size=0"}, "URL", "want 1 … 10000"},
		"a socket without a path":       {redis.Options{URL: "unix://"}, "URL", "three slashes"},
		"a socket behind two slashes":   {redis.Options{URL: "unix://run/redis.sock"}, "URL", "three slashes"},
		"a Sentinel without a master":   {redis.Options{URL: "redis-sentinel://one:1,two:2"}, "URL", "the master's name is missing"},
		"a Sentinel without a host":     {redis.Options{URL: "redis-sentinel://one,,two/m"}, "URL", "want host:port"},
		"a Cluster with a database":     {redis.Options{URL: "redis-cluster://one:1,two:2/3"}, "URL", "has only database 0"},
		"a Cluster without a host":      {redis.Options{URL: "redis-cluster:///"}, "URL", "want host:port"},
		"a tag without a Cluster":       {redis.Options{URL: "redis://h", FixedTag: true}, "FixedTag", "only supported with a redis-cluster:// URL"},
		"two users":                     {redis.Options{URL: "redis://ann:s3cret@h", Username: "bob"}, "Username", "names a user too"},
		"two passwords":                 {redis.Options{URL: "redis://:s3cret@h", Password: "s3cret2"}, "Password", "contains a password too"},
		"a user without a password":     {redis.Options{URL: "redis://h", Username: "ann"}, "Password", "without a password"},
		"a Sentinel password":           {redis.Options{URL: "redis://h", SentinelPassword: "s3cret"}, "SentinelPassword", "only supported with a redis-sentinel:// URL"},
		"files without TLS":             {redis.Options{URL: "redis://h", TLS: redisconn.TLSFiles{CA: "ca.pem"}}, "TLS", "want rediss://"},
		"a missing authority":           {redis.Options{URL: "rediss://h", TLS: redisconn.TLSFiles{CA: missing}}, "TLS.CA", "no such file"},
		"an authority without PEM":      {redis.Options{URL: "rediss://h", TLS: redisconn.TLSFiles{CA: "connect_test.go"}}, "TLS.CA", "want PEM"},
		"a certificate without a key":   {redis.Options{URL: "rediss://h", TLS: redisconn.TLSFiles{Cert: missing}}, "TLS.Key", "is missing"},
		"a key without a certificate":   {redis.Options{URL: "rediss://h", TLS: redisconn.TLSFiles{Key: missing}}, "TLS.Cert", "is missing"},
		"a missing certificate":         {redis.Options{URL: "rediss://h", TLS: redisconn.TLSFiles{Cert: missing, Key: missing}}, "TLS.Cert", "no such file"},
		"a client that retries":         {redis.Options{Client: goredis.NewClient(&goredis.Options{})}, "Client", "want MaxRetries -1"},
		"a client of a Cluster":         {redis.Options{Client: goredis.NewClusterClient(&goredis.ClusterOptions{})}, "Client", "repeats calls"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := remote.Open(c.options)
			var wrong *redisconn.OptionError
			if !errors.As(err, &wrong) || wrong.Option != c.option || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one of %s with %q", err, c.option, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error contains a password: %v", err)
			}
			if r != nil {
				t.Error("a store and an error")
			}
		})
	}
}
