package koalagate_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

const gateRules = `
[rules]
rule : [count] [uid=+] [time=3600; count=COUNT;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func writeRules(t *testing.T, path, count string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Replace(gateRules, "COUNT", count, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// take asks for one hit of a user.
func take(t *testing.T, g *koalagate.Gate, uid string) rules.Verdict {
	t.Helper()
	params := new(rules.Params)
	params.Set("uid", uid)
	d, err := g.Engine().Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: params, Hits: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return d.Verdict
}

// A gate decides by its rule files, and by what becomes of them.
func TestGate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	g, err := koalagate.Open(koalagate.Options{Rules: []string{path}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if first, second := take(t, g, "ann"), take(t, g, "ann"); first != rules.Allow || second != rules.Deny {
		t.Errorf("%v, %v; want one hit to pass", first, second)
	}
	writeRules(t, path, "2")
	for deadline := time.Now().Add(20 * time.Second); take(t, g, "ann") != rules.Allow; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the changed rules are not in force")
		}
	}
}

func TestGateWithoutRedis(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	g, err := koalagate.Open(koalagate.Options{Rules: []string{path}, Redis: "redis://127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if v := take(t, g, "ann"); v != rules.Allow {
		t.Errorf("%v; want that the process counts for itself", v)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// What the service is told of Redis by its keys, a program says in
// RedisOptions.
func TestGateOfAUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	if err := client.Do(context.Background(), "ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	open := func(url, password string) (*koalagate.Gate, *bytes.Buffer, error) {
		log := new(bytes.Buffer)
		g, err := koalagate.Open(koalagate.Options{
			Rules: []string{path}, Redis: url, RedisOptions: store.RedisOptions{Username: "ann", Password: password, Budget: time.Minute},
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		return g, log, err
	}
	for i, want := range []rules.Verdict{rules.Allow, rules.Deny} { // two instances, one counter
		g, _, err := open(server.URL(), "secret")
		if err != nil {
			t.Fatal(err)
		}
		if v := take(t, g, "bob"); v != want {
			t.Errorf("take %d: %v, want %v", i, v, want)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}

	g, log, err := open(server.URL(), "wrong")
	if err != nil {
		t.Fatal(err)
	}
	v := take(t, g, "bob")
	if err := g.Close(); err != nil { // nobody writes to the log any more
		t.Error(err)
	}
	if v != rules.Allow || !strings.Contains(log.String(), "password is wrong") {
		t.Errorf("with a wrong password: %v; want that the process counts for itself, and says why:\n%s", v, log)
	}
	if g, _, err := open(server.URL()+"?db=99", "secret"); err == nil || !strings.Contains(err.Error(), "no database of this number") {
		t.Errorf("a database that Redis has not: %v", err)
		if err == nil {
			g.Close()
		}
	}
}

func TestGateRefusesToOpen(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.conf")
	if err := os.WriteFile(bad, []byte("[rules]\nrule : [cuont]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good.conf")
	writeRules(t, good, "1")
	for _, c := range []struct {
		name string
		o    koalagate.Options
		want string
	}{
		{"a faulty rule", koalagate.Options{Rules: []string{bad}}, "the rules are faulty: " + bad + ":2:"},
		{"no file", koalagate.Options{}, "no rule files"},
		{"a file that is not there", koalagate.Options{Rules: []string{"/nonexistent/rules.conf"}}, "no such file"},
		{"a folder without rules", koalagate.Options{Rules: []string{t.TempDir()}}, "the folder contains no *.conf file"},
		{"a URL in the wrong place", koalagate.Options{Rules: []string{good}, RedisOptions: store.RedisOptions{URL: "redis://127.0.0.1"}}, "say the URL and the prefix in Redis"},
		{"a password for nothing", koalagate.Options{Rules: []string{good}, RedisOptions: store.RedisOptions{Password: "secret"}}, "redis URL: want redis://"},
		{"files for TLS without TLS", koalagate.Options{Rules: []string{good}, Redis: "redis://127.0.0.1", RedisOptions: store.RedisOptions{TLS: store.TLSFiles{CA: "ca.pem"}}}, "redis TLS: the URL asks for no TLS"},
		{"an authority that is not there", koalagate.Options{Rules: []string{good}, Redis: "rediss://127.0.0.1", RedisOptions: store.RedisOptions{TLS: store.TLSFiles{CA: "/nonexistent/ca.pem"}}}, "redis TLS.CA: open /nonexistent/ca.pem"},
		{"no URL of Redis", koalagate.Options{Rules: []string{good}, Redis: "http://127.0.0.1"}, "redis URL: want redis://"},
	} {
		g, err := koalagate.Open(c.o)
		if err == nil {
			g.Close()
			t.Errorf("%s: it opens", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}
