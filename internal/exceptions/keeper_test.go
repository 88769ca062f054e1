package exceptions_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

func parseRules(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

const ruleText = `[rules]
rule : [count] [act=post; uid=+] [time=60; count=2] [result=2; return=1]
rule : [token] [uid=+] [time=31622400; count=2] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func exception(rule int64, uid, what string) exceptions.Exception {
	x := exceptions.Exception{Rule: rule, Identity: map[string]string{"uid": uid}, What: what, Until: time.Now().Add(time.Hour)}
	if what == exceptions.Count {
		x.Count = 9
	}
	return x
}

// What contradicts the rules or another exception changes nothing.
func TestAddRefuses(t *testing.T) {
	k := exceptions.New(exceptions.Options{Max: 3, Logger: slog.New(slog.DiscardHandler)})
	if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Allow)}); err == nil {
		t.Error("added without rules")
	}
	k.Use(parseRules(t, ruleText))
	if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Allow)}); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*exceptions.Exception)) []exceptions.Exception {
		x := exception(1, "bob", exceptions.Count)
		change(&x)
		return []exceptions.Exception{exception(1, "cid", exceptions.Deny), x}
	}
	for want, list := range map[string][]exceptions.Exception{
		"has exception":      with(func(x *exceptions.Exception) { x.Identity = map[string]string{"uid": " ann ", "act": "post"} }),
		"want count, allow":  with(func(x *exceptions.Exception) { x.What = "pass" }),
		"has passed":         with(func(x *exceptions.Exception) { x.Until = time.Now() }),
		"31 days":            with(func(x *exceptions.Exception) { x.Until = time.Now().Add(32 * 24 * time.Hour) }),
		"no rule 7":          with(func(x *exceptions.Exception) { x.Rule = 7 }),
		"missing parameters": with(func(x *exceptions.Exception) { x.Identity = nil }),
		"1 or more":          with(func(x *exceptions.Exception) { x.Count = 0 }),
		"with count only":    with(func(x *exceptions.Exception) { x.What = exceptions.Deny }),
		"500 bytes":          with(func(x *exceptions.Exception) { x.Note = strings.Repeat("x", 501) }),
		"exactly":            with(func(x *exceptions.Exception) { x.Rule, x.Count = 2, 1<<32-1 }),
		"for this identity":  {exception(1, "cid", exceptions.Allow), exception(1, "cid", exceptions.Deny)},
		"max_exceptions":     {exception(1, "b", exceptions.Allow), exception(1, "c", exceptions.Allow), exception(1, "d", exceptions.Allow)},
	} {
		if _, err := k.Add(t.Context(), list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if list := k.List(); len(list) != 1 || list[0].Identity["uid"] != "ann" {
		t.Errorf("%v", list)
	}
	var conflict *exceptions.ConflictError
	if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Deny)}); !errors.As(err, &conflict) || conflict.Other.ID != k.List()[0].ID {
		t.Errorf("%v", err)
	}
}

// Exceptions end by the clock, and make room for others.
func TestExceptionsEnd(t *testing.T) {
	now := time.Now()
	k := exceptions.New(exceptions.Options{Max: 1, Now: func() time.Time { return now }})
	k.Use(parseRules(t, ruleText))
	for range 3 {
		x := exception(1, "ann", exceptions.Allow)
		x.Until = now.Add(time.Minute)
		if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err != nil {
			t.Fatal(err)
		}
		if now = now.Add(time.Minute); len(k.List()) != 0 {
			t.Error("it did not end")
		}
	}
}

// share starts keepers that share a Redis.
func share(t *testing.T, server *storetest.Server, n int, change ...func(*exceptions.Options)) []*exceptions.Keeper {
	t.Helper()
	set := parseRules(t, ruleText)
	keepers := make([]*exceptions.Keeper, n)
	for i := range keepers {
		client := server.Client()
		o := exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)}
		for _, f := range change {
			f(&o)
		}
		k := exceptions.New(o)
		k.Use(set)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); k.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended; _ = client.Close() })
		keepers[i] = k
	}
	return keepers
}

// await waits until a keeper has n exceptions.
func await(t *testing.T, k *exceptions.Keeper, n int) []exceptions.Exception {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if list := k.List(); len(list) == n {
			return list
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%d exceptions; want %d", len(k.List()), n)
		}
	}
}

// An instance that starts with a lower max_exceptions has those that are in force, and adds none.
func TestLoweredMaximumKeepsExceptions(t *testing.T) {
	server := storetest.StartServer(t)
	first := share(t, server, 1)[0]
	var list []exceptions.Exception
	for i := range 5 {
		list = append(list, exception(1, "user-"+strconv.Itoa(i), exceptions.Deny))
	}
	added, err := first.Add(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	lowered := share(t, server, 1, func(o *exceptions.Options) { o.Max = 2 })[0]
	await(t, lowered, 5)
	another := []exceptions.Exception{exception(1, "ann", exceptions.Allow)}
	if _, err := lowered.Add(t.Context(), another); !errors.Is(err, exceptions.ErrFull) {
		t.Errorf("one more: %v; want ErrFull", err)
	}
	for _, x := range added[:4] {
		if _, err := lowered.Remove(t.Context(), x.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lowered.Add(t.Context(), another); err != nil {
		t.Errorf("one more beside one: %v", err)
	}
}

// Instances that share a Redis share their exceptions; of two that contradict each other,
// one wins.
func TestInstancesShareExceptions(t *testing.T) {
	server := storetest.StartServer(t)
	keepers := share(t, server, 3)
	if _, err := keepers[0].Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Count), exception(2, "ann", exceptions.Allow)}); err != nil {
		t.Fatal(err)
	}
	for _, k := range keepers {
		if list := await(t, k, 2); list[0].Count+list[1].Count != 9 {
			t.Errorf("%v", list)
		}
	}
	removed := keepers[2].List()[0]
	if x, err := keepers[2].Remove(t.Context(), removed.ID); err != nil || x.ID != removed.ID {
		t.Errorf("%v, %v", x, err)
	}
	if _, err := keepers[2].Remove(t.Context(), removed.ID); !errors.Is(err, exceptions.ErrUnknown) {
		t.Errorf("%v", err)
	}
	for _, k := range keepers {
		await(t, k, 1)
	}
	outcomes := make(chan error)
	for _, k := range keepers {
		go func() {
			_, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "eve", exceptions.Deny)})
			outcomes <- err
		}()
	}
	won := 0
	for range keepers {
		var conflict *exceptions.ConflictError
		switch err := <-outcomes; {
		case err == nil:
			won++
		case !errors.As(err, &conflict):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of three contradicting exceptions are in force", won)
	}
}

// An instance that has not followed yet removes what it knows, and nothing that another instance has
// put in its place.
func TestRemoveLeavesWhatReplacedIt(t *testing.T) {
	server := storetest.StartServer(t)
	other := share(t, server, 1)[0]
	client := server.Client()
	defer client.Close()
	for name, c := range map[string]struct {
		change func(id string) error // by the other instance
		want   error
		left   int
	}{
		"nothing changed": {func(string) error { return nil }, nil, 0},
		"removed":         {func(id string) error { _, err := other.Remove(t.Context(), id); return err }, exceptions.ErrUnknown, 0},
		"replaced": {func(id string) error {
			if _, err := other.Remove(t.Context(), id); err != nil {
				return err
			}
			_, err := other.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Deny)})
			return err
		}, exceptions.ErrUnknown, 1},
		"damaged": {func(string) error {
			return client.HSet(t.Context(), "koala:{exceptions}:book", `1 {"act":"post","uid":"ann"}`, "{").Err()
		}, exceptions.ErrUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			client.Del(t.Context(), "koala:{exceptions}:book", "koala:{exceptions}:version")
			await(t, other, 0)
			late := exceptions.New(exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)})
			late.Use(parseRules(t, ruleText))
			added, err := late.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Allow)})
			if err != nil {
				t.Fatal(err)
			}
			await(t, other, 1)
			if err := c.change(added[0].ID); err != nil {
				t.Fatal(err)
			}
			if _, err := late.Remove(t.Context(), added[0].ID); !errors.Is(err, c.want) {
				t.Errorf("%v; want %v", err, c.want)
			}
			if list := late.List(); len(list) != 0 {
				t.Errorf("the instance still knows %v", list)
			}
			if n, err := client.HLen(t.Context(), "koala:{exceptions}:book").Result(); err != nil || n != int64(c.left) {
				t.Errorf("Redis has %d exceptions, %v; want %d", n, err, c.left)
			}
		})
	}
}

// wireException is what an instance writes to Redis. Instances of other program versions
// read it, and its signature covers it.
const (
	wireException = `{"id":"X4T2QK7MNB5A","rule":1,"identity":{"act":"post","uid":"ann"},"what":"count","count":9,` +
		`"until":"2027-01-15T08:00:00Z","author":"ops","note":"more","signature":"SIGNATURE"}`
	wireSignature = "7+ihZoHEG48y+c02tTXOPNAhElP9OwoZKYFJZkJxI9uWzuAmScpEOqBRZQVmHOa63AowUHHXBVk+Ml2UmpruBA=="
)

func TestWireForm(t *testing.T) {
	x := exception(1, "ann", exceptions.Count)
	x.ID, x.Identity["act"], x.Until, x.Author, x.Note = "X4T2QK7MNB5A", "post", time.Unix(1800000000, 0).UTC(), "ops", "more"
	x.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), "koala")
	if x.Signature != wireSignature {
		t.Errorf("the signature is %s; want %s", x.Signature, wireSignature)
	}
	x.Signature = "SIGNATURE"
	if got, err := json.Marshal(&x); err != nil || string(got) != wireException {
		t.Errorf("%v: an exception is\n%s\nwant\n%s", err, got, wireException)
	}
}

// Instances that add at the same time learn of each other's exceptions, and a list that is
// sent in pieces is added as a whole or not at all.
func TestAddsAtTheSameTime(t *testing.T) {
	server := storetest.StartServer(t)
	keepers := share(t, server, 3)
	for i, k := range keepers {
		list := make([]exceptions.Exception, 0, 500)
		for j := range 500 {
			list = append(list, exception(1, fmt.Sprint(i, " ", j), exceptions.Allow))
		}
		if _, err := k.Add(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range keepers {
		await(t, k, 1500)
	}
	// A keeper that does not follow does not know the last one of this list.
	client := server.Client()
	defer client.Close()
	blind := exceptions.New(exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)})
	blind.Use(parseRules(t, ruleText))
	var list []exceptions.Exception
	for j := range 300 {
		list = append(list, exception(2, fmt.Sprint("new ", j), exceptions.Allow))
	}
	list = append(list, exception(1, "2 499", exceptions.Deny))
	var conflict *exceptions.ConflictError
	if _, err := blind.Add(t.Context(), list); !errors.As(err, &conflict) {
		t.Errorf("%v; want a conflict", err)
	}
	if n, err := client.HLen(t.Context(), "koala:{exceptions}:book").Result(); err != nil || n != 1500 {
		t.Errorf("Redis has %d exceptions, %v; want 1500", n, err)
	}
	if _, err := keepers[0].Add(t.Context(), []exceptions.Exception{exception(2, "last", exceptions.Allow)}); err != nil {
		t.Fatal(err)
	}
	for _, k := range keepers {
		await(t, k, 1501)
	}
}

// The clocks of instances differ by minutes: exceptions end by that of Redis.
func TestClocksOfInstancesDiffer(t *testing.T) {
	server := storetest.StartServer(t)
	set := parseRules(t, ruleText)
	var keepers []*exceptions.Keeper
	for _, ahead := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		client := server.Client()
		k := exceptions.New(exceptions.Options{
			Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(ahead) },
		})
		k.Use(set)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); k.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended; _ = client.Close() })
		storetest.Eventually(t, func() error {
			if off := time.Until(k.Now()).Abs(); off > time.Minute {
				return fmt.Errorf("the time is %v off", off)
			}
			return nil
		})
		keepers = append(keepers, k)
	}
	for i, k := range keepers {
		x := exception(1, fmt.Sprint("user ", i), exceptions.Allow)
		x.Until = time.Now().Add(5 * time.Minute)
		if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range keepers {
		await(t, k, len(keepers))
	}
}

// On a Cluster the node with the exceptions states the time.
func TestCluster(t *testing.T) {
	c := storetest.StartCluster(t, 3, false)
	hosts := make([]string, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Address)
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: hosts})
	defer client.Close()
	k := exceptions.New(exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(t, ruleText))
	if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Deny)}); err != nil {
		t.Fatal(err)
	}
	fresh := exceptions.New(exceptions.Options{Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler)})
	fresh.Use(parseRules(t, ruleText))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); fresh.Run(ctx) }()
	await(t, fresh, 1)
	cancel()
	<-ended
	asked := 0
	for _, n := range c.Nodes {
		if strings.Contains(fmt.Sprint(n.MustDo("INFO", "commandstats")), "cmdstat_time:") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d nodes were asked for the time; want 1", asked)
	}
}

// With a key, only signed exceptions are in force, wherever they come from.
func TestSignedExceptions(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	open := func(prefix string) *exceptions.Keeper {
		k := exceptions.New(exceptions.Options{Redis: client, Prefix: prefix, PublicKey: public, Logger: slog.New(slog.DiscardHandler)})
		k.Use(parseRules(t, ruleText))
		return k
	}
	k := open("koala")
	if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Deny)}); !errors.Is(err, exceptions.ErrUnsigned) {
		t.Errorf("unsigned: %v", err)
	}
	prepared, err := k.Prepare(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Count), exception(2, "ann", exceptions.Allow)})
	if err != nil || len(k.List()) != 0 {
		t.Fatalf("%v, %v", err, k.List())
	}
	for i := range prepared {
		prepared[i].Author = "ops"
		prepared[i].Sign(private, "koala")
	}
	for name, change := range map[string]func(*exceptions.Exception){
		"count":    func(x *exceptions.Exception) { x.Count++ },
		"identity": func(x *exceptions.Exception) { x.Identity = map[string]string{"act": "post", "uid": "eve"} },
		"end":      func(x *exceptions.Exception) { x.Until = x.Until.Add(time.Hour) },
		"author":   func(x *exceptions.Exception) { x.Author = "eve" },
		"ID":       func(x *exceptions.Exception) { x.ID = "ABCDEFGHIJKL" },
		"prefix":   func(x *exceptions.Exception) { x.Sign(private, "other") },
		"line":     func(x *exceptions.Exception) { x.Signature = x.Signature[:8] + "\r\n" + x.Signature[8:] },
	} {
		changed := prepared[0]
		change(&changed)
		if _, err := k.Add(t.Context(), []exceptions.Exception{changed}); !errors.Is(err, exceptions.ErrUnsigned) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := k.Add(t.Context(), prepared); err != nil {
		t.Fatal(err)
	}
	// An instance that starts later takes the signed ones, and nothing that was changed.
	book := "koala:{exceptions}:book"
	all, err := client.HGetAll(t.Context(), book).Result()
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for place, text := range all {
		if strings.Contains(text, `"what":"count"`) {
			all[place] = strings.Replace(text, `"count":9`, `"count":9000`, 1)
		}
	}
	if err := client.HSet(t.Context(), book, all).Err(); err != nil {
		t.Fatal(err)
	}
	fresh := open("koala")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); fresh.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if list := await(t, fresh, 1); list[0].What != exceptions.Allow || list[0].Author != "ops" {
		t.Errorf("%+v", list)
	}
}

// Whatever Redis holds, valid exceptions stay in force, and every key expires.
func TestHostileRedis(t *testing.T) {
	server := storetest.StartServer(t)
	k := share(t, server, 1)[0]
	added, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Deny)})
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	defer client.Close()
	for _, key := range []string{"koala:{exceptions}:book", "koala:{exceptions}:version"} {
		if left, err := client.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > 2*time.Hour {
			t.Errorf("%s expires in %v, %v", key, left, err)
		}
	}
	moved := exception(1, "bob", exceptions.Allow)
	moved.ID = "MOVED"
	text, err := json.Marshal(moved)
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range []string{"", "{}", "null", `{"id":"x","what":"all"}`, string(text), strings.Repeat("x", 100_000), `{"id":"` + strings.Repeat("x", 1000) + `"}`} {
		if err := client.HSet(t.Context(), "koala:{exceptions}:book", strconv.Itoa(i), value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Set(t.Context(), "koala:{exceptions}:version", "another", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "cid", exceptions.Deny)}); err != nil {
		t.Fatal(err)
	}
	fresh := share(t, server, 1)[0]
	if list := await(t, fresh, 2); list[0].ID != added[0].ID && list[1].ID != added[0].ID {
		t.Errorf("%v", list)
	}
	// Without Redis, what is known stays in force, and nothing can be added.
	server.Kill()
	if _, err := fresh.Add(t.Context(), []exceptions.Exception{exception(1, "dan", exceptions.Deny)}); err == nil {
		t.Error("added without Redis")
	}
	if list := fresh.List(); len(list) != 2 {
		t.Errorf("%v", list)
	}
}

// limitsOf finds the limit d.ten, which counts by the value of ten.
func limitsOf(r *rules.Rule) exceptions.Limits {
	return func(path string, values map[string]string) (rules.Match, map[string]string, error) {
		if path != "d.ten" || len(values) != 1 || values["ten"] == "" {
			return rules.Match{}, nil, errors.New("no such limit")
		}
		return rules.Match{Rule: r, Identity: []byte("\xf3" + values["ten"])}, values, nil
	}
}

func TestExceptionsFromImportedLimits(t *testing.T) {
	limit := &rules.Rule{Name: "d.ten", Method: rules.Count, Result: &rules.Result{RetType: 2, ErrNo: 429, StrReason: "Deny"}}
	k := exceptions.New(exceptions.Options{Limits: limitsOf(limit), Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(t, ruleText))
	of := func(path, ten, what string) exceptions.Exception {
		return exceptions.Exception{Limit: path, Identity: map[string]string{"ten": ten}, What: what, Until: time.Now().Add(time.Hour)}
	}
	added, err := k.Add(t.Context(), []exceptions.Exception{of("d.ten", "x", exceptions.Deny), of("d.ten", "y", exceptions.Allow), exception(1, "ann", exceptions.Allow)})
	if err != nil || len(added) != 3 || added[0].Target() != "limit d.ten" || added[2].Target() != "rule 1" {
		t.Fatalf("%+v, %v", added, err)
	}
	both := of("d.ten", "z", exceptions.Allow)
	both.Rule = 1
	var conflict *exceptions.ConflictError
	if _, err := k.Add(t.Context(), []exceptions.Exception{of("d.ten", "x", exceptions.Allow)}); !errors.As(err, &conflict) || !strings.Contains(err.Error(), "limit d.ten has exception") {
		t.Errorf("a second exception: %v", err)
	}
	for name, x := range map[string]exceptions.Exception{"another limit": of("d.two", "x", exceptions.Allow), "a rule and a limit": both} {
		if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err == nil {
			t.Errorf("%s: added", name)
		}
	}
	if list, err := k.Find(t.Context(), exceptions.Filter{Words: []string{"d.ten"}}); err != nil || len(list) != 2 {
		t.Errorf("found %+v; want the two of the limit", list)
	}
	limit.Result = &rules.Result{RetType: 1, StrReason: "Allow"} // the limit is in shadow now
	k.UseLimits()
	if _, err := k.Add(t.Context(), []exceptions.Exception{of("d.ten", "w", exceptions.Deny)}); err == nil || !strings.Contains(err.Error(), "limit d.ten cannot deny") {
		t.Errorf("a refusal by a limit in shadow: %v", err)
	}
	if _, err := exceptions.New(exceptions.Options{}).Prepare(t.Context(), []exceptions.Exception{of("d.ten", "x", exceptions.Allow)}); err == nil {
		t.Error("an exception from a limit of a service without limits")
	}
}
