package koalagate_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
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

// take counts one hit of a user and returns the verdict.
func take(t *testing.T, g *koalagate.Gate, uid string) rules.Verdict {
	t.Helper()
	d, err := g.Allow(context.Background(), map[string]string{"uid": uid})
	if err != nil || d.Allowed() != (d.Verdict == rules.Allow) {
		t.Fatalf("%+v, %v", d, err)
	}
	return d.Verdict
}

// A program that can write to Redis lifts a limit by deleting its counter, and blocks an
// identity by writing a full one.
func TestWriterOfCounters(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	o := koalagate.Options{Rules: []string{path}, Redis: server.URL(), RedisPrefix: "writer", Logger: slog.New(slog.DiscardHandler)}
	o.RedisOptions.Refusals, o.RedisOptions.Budget = -1, time.Minute
	g, err := koalagate.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if first, second := take(t, g, "ann"), take(t, g, "ann"); first != rules.Allow || second != rules.Deny {
		t.Fatalf("%v, %v; want one hit to pass", first, second)
	}
	keys, err := client.Keys(t.Context(), "writer:*ann*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v; want one counter", keys, err)
	}
	full := client.Dump(t.Context(), keys[0]).Val()
	client.Del(t.Context(), keys[0])
	if got := take(t, g, "ann"); got != rules.Allow {
		t.Errorf("without its counter: %v", got)
	}
	client.Del(t.Context(), keys[0])
	client.Restore(t.Context(), keys[0], time.Minute, full)
	if got := take(t, g, "ann"); got != rules.Deny {
		t.Errorf("with a full counter: %v", got)
	}
}

// A gate decides by its rule files, and reloads them when they change.
func TestGateReloadsItsRules(t *testing.T) {
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
			t.Fatal("the changed rules are not active")
		}
	}
}

func TestGateCountsInProcessWithoutRedis(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	g, err := koalagate.Open(koalagate.Options{Rules: []string{path}, Redis: "redis://127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if v := take(t, g, "ann"); v != rules.Allow {
		t.Errorf("%v; want the process to count for itself", v)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// Beyond MaxReceipts a hold rule refuses, and the log says why.
func TestGateReportsTooManyReceipts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	const text = "[rules]\nrule : [hold] [uid=+] [time=60; count=9] [result=2; return=1]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	g, err := koalagate.Open(koalagate.Options{Rules: []string{path}, MaxReceipts: 1, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	first, second := take(t, g, "ann"), take(t, g, "bob")
	if err := g.Close(); err != nil { // ends all writes to the log
		t.Error(err)
	}
	if first != rules.Allow || second != rules.Deny || !strings.Contains(log.String(), "max_receipts=1 ") {
		t.Errorf("%v, %v; want the second take refused, and a warning:\n%s", first, second, log)
	}
}

// RedisOptions hold what the service reads from its redis_ settings.
func TestGateUsesRedisOptions(t *testing.T) {
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
			Rules: []string{path}, Redis: url, RedisOptions: koalagate.RedisOptions{Username: "ann", Password: password, Budget: time.Minute},
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
	if err := g.Close(); err != nil { // ends all writes to the log
		t.Error(err)
	}
	if v != rules.Allow || !strings.Contains(log.String(), "wrong user or password") {
		t.Errorf("with a wrong password: %v; want the process to count for itself and log why:\n%s", v, log)
	}
	if g, _, err := open(server.URL()+"?db=99", "secret"); err == nil || !strings.Contains(err.Error(), "no database of that number") {
		t.Errorf("a database that Redis does not have: %v", err)
		if err == nil {
			g.Close()
		}
	}
}

func TestOpenReturnsErrors(t *testing.T) {
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
		{"a rule with an error", koalagate.Options{Rules: []string{bad}}, "the rules have errors: " + bad + ":2:"},
		{"no file", koalagate.Options{}, "no rule files"},
		{"a missing file", koalagate.Options{Rules: []string{"/nonexistent/rules.conf"}}, "no such file"},
		{"a folder without rules", koalagate.Options{Rules: []string{t.TempDir()}}, "the folder contains no *.conf file"},
		{"a URL and a client", koalagate.Options{Rules: []string{good}, Redis: "redis://127.0.0.1", RedisOptions: koalagate.RedisOptions{Client: new(goredis.Client)}}, "both Redis and RedisOptions.Client are set"},
		{"a prefix without Redis", koalagate.Options{Rules: []string{good}, RedisPrefix: "app"}, "RedisPrefix is set"},
		{"an unknown time zone", koalagate.Options{Rules: []string{good}, Timezone: "Mars/Olympus"}, `Timezone is "Mars/Olympus"`},
		{"a file without [end]", koalagate.Options{Rules: []string{good}, RequireEnd: true}, "does not end with [end]"},
		{"a share above 1", koalagate.Options{Rules: []string{good}, RescueShare: 1.5}, "RescueShare is 1.5"},
		{"a negative share", koalagate.Options{Rules: []string{good}, RescueShare: -1}, "RescueShare is -1"},
		{"a share that is no number", koalagate.Options{Rules: []string{good}, RescueShare: math.NaN()}, "RescueShare is NaN"},
		{"an unknown policy", koalagate.Options{Rules: []string{good}, FailPolicies: engine.Policies{"middleware": 9}}, `FailPolicies: unknown policy 9 of door "middleware"`},
		{"an unknown batching", koalagate.Options{Rules: []string{good}, Redis: "redis://127.0.0.1", RedisOptions: koalagate.RedisOptions{Batching: "all"}}, "redis batching"},
		{"a password without a URL", koalagate.Options{Rules: []string{good}, RedisOptions: koalagate.RedisOptions{Password: "secret"}}, "redis URL: want redis://"},
		{"files for TLS without TLS", koalagate.Options{Rules: []string{good}, Redis: "redis://127.0.0.1", RedisOptions: koalagate.RedisOptions{TLS: koalagate.RedisTLS{CA: "ca.pem"}}}, "redis TLS: the URL does not use TLS"},
		{"a missing authority", koalagate.Options{Rules: []string{good}, Redis: "rediss://127.0.0.1", RedisOptions: koalagate.RedisOptions{TLS: koalagate.RedisTLS{CA: "/nonexistent/ca.pem"}}}, "redis TLS.CA: open /nonexistent/ca.pem"},
		{"a URL that names no Redis", koalagate.Options{Rules: []string{good}, Redis: "http://127.0.0.1"}, "redis URL: want redis://"},
	} {
		g, err := koalagate.Open(c.o)
		if err == nil {
			g.Close()
			t.Errorf("%s: opened", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

// Rules see the door of a gate, and the zone of its options.
func TestGateMeetsRulesOfItsDoor(t *testing.T) {
	if koalagate.Door != doorname.Program {
		t.Errorf("the door is %q; rules know %q", koalagate.Door, doorname.Program)
	}
	path := filepath.Join(t.TempDir(), "rules.conf")
	text := "[rules]\nrule : [direct] [door=program; uid=+] [] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n[end]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := koalagate.Open(koalagate.Options{Rules: []string{path}, RequireEnd: true, Timezone: "Europe/Berlin", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if v := take(t, g, "ann"); v != rules.Deny {
		t.Errorf("%v; want the rule of door=program to refuse", v)
	}
	if d, err := g.Allow(t.Context(), map[string]string{"uid": "ann", "door": "other"}); err != nil || !d.Allowed() {
		t.Errorf("with a door of the caller: %+v, %v; want it allowed", d, err)
	}
	if zone := g.Engine().Rules().Zone.String(); zone != "Europe/Berlin" {
		t.Errorf("the zone is %s", zone)
	}
}

func TestZeroGateAllowsNothing(t *testing.T) {
	for name, g := range map[string]*koalagate.Gate{"nil": nil, "zero": new(koalagate.Gate)} {
		if d, err := g.Allow(context.Background(), map[string]string{"uid": "ann"}); err == nil || d.Allowed() {
			t.Errorf("%s gate: %+v, %v; want an error", name, d, err)
		}
		if g.Engine() != nil || g.Close() != nil {
			t.Errorf("%s gate has an engine", name)
		}
	}
}

func TestErrorsDoNotAllow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	g, err := koalagate.Open(koalagate.Options{Rules: []string{path}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if d, err := g.Allow(ctx, map[string]string{"uid": "ann"}); err == nil || d.Allowed() {
		t.Errorf("a canceled context: %+v, %v; want an error", d, err)
	}
	if v := take(t, g, "ann"); v != rules.Allow {
		t.Errorf("after the error: %v; want it allowed: the error counted nothing", v)
	}
}

// Modes, policies and observers of a gate concern Allow by the name of its door.
func TestAllowHasADoor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writeRules(t, path, "1")
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{koalagate.Door: engine.ModeObserve})
	var doors []string
	g, err := koalagate.Open(koalagate.Options{
		Rules: []string{path}, Modes: modes, Logger: slog.New(slog.DiscardHandler),
		Observe: func(c *engine.Call, _ *engine.Decision, _ error) { doors = append(doors, c.Door) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for range 2 {
		if v := take(t, g, "ann"); v != rules.Allow {
			t.Errorf("%v in observe mode; want allow", v)
		}
	}
	modes.Set(map[string]engine.Mode{koalagate.Door: engine.ModeEnforce})
	if v := take(t, g, "ann"); v != rules.Deny {
		t.Errorf("%v in enforce mode; want deny", v)
	}
	if want := []string{"program", "program", "program"}; !slices.Equal(doors, want) {
		t.Errorf("observed the doors %q; want %q", doors, want)
	}
}
