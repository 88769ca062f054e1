package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// limitOfOne starts a control plane with a limit of one a year, and returns the variables
// of a program that follows it and waits for Redis.
func limitOfOne(t *testing.T) []string {
	t.Helper()
	plane := xdstest.Start(t, nil)
	plane.Publish(xdstest.Resource(t, "n", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 1}}]"))
	return []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + plane.Address, "KOALAGATE_REDIS_BUDGET=10s"}
}

// awaitRedis waits until the program counts in Redis.
func (r *replaced) awaitRedis() {
	r.t.Helper()
	storetest.Eventually(r.t, func() error {
		if page := r.get(r.debug, "/readyz"); !strings.Contains(page, `"store": "redis"`) {
			return errors.New(page)
		}
		return nil
	})
}

// TestVariablesOfRedis starts two programs on one Redis by the variables of
// envoyproxy/ratelimit: the second one refuses what the first one has counted.
func TestVariablesOfRedis(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) []string{
		"a password": func(t *testing.T) []string {
			n := storetest.StartNode(t, goredis.Options{Password: "secret"}, "--requirepass", "secret")
			return []string{"REDIS_URL=" + n.Address, "REDIS_AUTH=secret"}
		},
		"a user and a password": func(t *testing.T) []string {
			n := storetest.StartNode(t, goredis.Options{})
			n.MustDo("ACL", "SETUSER", "ann", "on", ">se:cret", "~*", "&*", "+@all")
			n.MustDo("ACL", "SETUSER", "default", "off")
			return []string{"REDIS_URL=redis://" + n.Address, "REDIS_AUTH=ann:se:cret"}
		},
		"TLS": startTLSRedis,
		"a Cluster": func(t *testing.T) []string {
			c := storetest.StartCluster(t, 3, false)
			return []string{"REDIS_TYPE=CLUSTER", "REDIS_URL=" + c.Nodes[0].Address + ", " + c.Nodes[1].Address}
		},
		"Sentinels": func(t *testing.T) []string {
			w := storetest.StartSentinels(t, 1, 0, "secret")
			return []string{"REDIS_TYPE=sentinel", "REDIS_URL=koala," + w.Sentinels[0].Address, "REDIS_AUTH=secret", "REDIS_SENTINEL_AUTH=secret"}
		},
		"a Redis for limits a second": func(t *testing.T) []string {
			n := storetest.StartNode(t, goredis.Options{})
			return []string{"REDIS_URL=" + n.Address, "REDIS_PERSECOND=true", "REDIS_PERSECOND_SOCKET_TYPE=tcp", "REDIS_PERSECOND_URL=127.0.0.1:1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			variables := append(limitOfOne(t), start(t)...)
			r, other := replace(t, variables...), replace(t, variables...)
			r.awaitRedis()
			other.awaitRedis()
			r.calls("d", "k", "v", 200, 429)
			other.calls("d", "k", "v", 429)
		})
	}
}

// startTLSRedis starts a Redis that speaks TLS only and requires certificates of its
// clients.
func startTLSRedis(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	ca := newAuthority(t)
	writeSigned(t, ca, in("server"), "redis.test")
	client := writeSigned(t, ca, in("client"), "client.test")
	if err := os.WriteFile(in("ca.pem"), ca.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	n := storetest.StartNode(t, goredis.Options{TLSConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client}}},
		"--tls-port", "PORT", "--port", "0", "--tls-cert-file", in("server.pem"), "--tls-key-file", in("server.key"), "--tls-ca-cert-file", in("ca.pem"))
	return []string{
		"REDIS_URL=" + n.Address, "REDIS_TLS=true", "REDIS_TLS_CACERT=" + in("ca.pem"),
		"REDIS_TLS_CLIENT_CERT=" + in("client.pem"), "REDIS_TLS_CLIENT_KEY=" + in("client.key"),
	}
}

func newAuthority(t *testing.T) *certs.Authority {
	t.Helper()
	ca, err := certs.NewAuthority("ca.test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// writeSigned writes a certificate for a name to BASE.pem and BASE.key, each at once.
func writeSigned(t *testing.T, ca *certs.Authority, base, name string) tls.Certificate {
	t.Helper()
	pair, err := ca.Sign(name)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{base + ".key": pair.Key, base + ".pem": pair.Cert} {
		if err := os.WriteFile(file+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func TestRedisMayComeLater(t *testing.T) {
	n := storetest.StartNode(t, goredis.Options{})
	n.Kill()
	r := replace(t, append(limitOfOne(t), "REDIS_URL="+n.Address)...)
	r.calls("d", "k", "early", 200, 429) // counted in process
	n.Start()
	r.awaitRedis() // until all calls go there
	r.calls("d", "k", "late", 200, 429)
	if keys, err := n.Do("KEYS", "*late*"); err != nil || fmt.Sprint(keys) == "[]" {
		t.Errorf("Redis counts nothing: %v, %v", keys, err)
	}
}

// TestCertificatesOfGRPCMayChange replaces the files of the certificate while the program
// serves: new connections get the new one, and callers need one of the client authority.
func TestCertificatesOfGRPCMayChange(t *testing.T) {
	base := filepath.Join(t.TempDir(), "tls")
	former, callers := newAuthority(t), newAuthority(t)
	writeSigned(t, former, base, "ratelimit.test")
	caller := writeSigned(t, callers, base+"-client", "envoy.test")
	if err := os.WriteFile(base+"-ca.pem", callers.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	r := replace(t, append(limitOfOne(t), "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+base+".pem", "GRPC_SERVER_TLS_KEY="+base+".key",
		"GRPC_CLIENT_TLS_CACERT="+base+"-ca.pem", "GRPC_CLIENT_TLS_SAN=envoy.test")...)
	storetest.Eventually(t, func() error { return r.check(former, caller) })
	next := newAuthority(t)
	writeSigned(t, next, base, "ratelimit.test")
	storetest.Eventually(t, func() error { return r.check(next, caller) })
	if err := r.check(former, caller); err == nil {
		t.Error("a new connection gets the former certificate")
	}
	for name, other := range map[string]tls.Certificate{
		"no certificate": {}, "another authority": writeSigned(t, former, base+"-other", "envoy.test"), "another name": writeSigned(t, callers, base+"-other", "other.test"),
	} {
		if err := r.check(next, other); err == nil {
			t.Errorf("a caller with %s is served", name)
		}
	}
}

// check asks for the health of the program, which must have a certificate of an authority.
func (r *replaced) check(ca *certs.Authority, caller tls.Certificate) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	config := &tls.Config{RootCAs: pool, ServerName: "ratelimit.test"}
	if caller.Certificate != nil {
		config.Certificates = []tls.Certificate{caller}
	}
	conn, err := grpc.NewClient("unix:"+r.uds, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = healthv1.NewHealthClient(conn).Check(r.t.Context(), &healthv1.HealthCheckRequest{})
	return err
}
