package koala_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/rules"
)

// faults are the faults of Koala that its users have met, each with a test that shows
// that calls of the same API are answered correctly here. docs/reliability.md lists them.
var faults = map[string]func(t *testing.T){
	"a counter without an end blocks its user for ever": func(t *testing.T) {
		server := storetest.StartServer(t)
		s := server.Open(t, func(o *redis.Options) { o.Prefix = "faults" })
		c := dial(t, koala.Options{Access: koala.Full, Hosts: []string{"127.0.0.1"}, Engine: engine.New(parse(t, `
[rules]
rule : [count] [act=c; uid=+] [time=60; count=2] [result=2; return=1]
rule : [base]  [act=b; uid=+] [base=1; time=60; count=1] [result=2; return=2]
rule : [leak]  [act=l; uid=+] [time=60; count=2] [result=2; return=3]
`+entries), wiring.CountIn(s))})
		for _, act := range []string{"c", "b", "l"} {
			for range 4 {
				c.rule("act=" + act + "&uid=1")
			}
			c.ask("GET /rule/update?act=" + act + "&uid=2")
			c.ask("GET /rule/feedback?act=" + act + "&uid=1")
		}
		server.CheckExpiries(t, "faults")
	},
	"concurrent callers that check and then count exceed a limit": func(t *testing.T) {
		atOnce(t, `rule : [count] [uid=+] [time=60; count=5] [result=2; return=1]`, 5)
	},
	"leak admits a hit too many, and more concurrently": func(t *testing.T) {
		atOnce(t, `rule : [leak] [uid=+] [time=60; count=5] [result=2; return=1]`, 5)
		c := limitedBy(t, `rule : [leak] [uid=+] [time=60; count=2] [result=2; return=1]`, noon)
		c.want("uid=1", 0, 0, 1)
	},
	"two identities share a counter": func(t *testing.T) {
		c := limitedBy(t, `rule : [count] [uid=+; act=+] [time=60; count=1] [result=2; return=1]`, noon)
		c.want("uid="+url.QueryEscape("a|b")+"&act=c", 0, 1)
		c.want("uid=a&act="+url.QueryEscape("b|c"), 0, 1)
		c.want("uid=a_b&act=c", 0, 1)
		c.want("uid=a&act=b_c", 0, 1)
	},
	"spaces and zeros evade rules": func(t *testing.T) {
		c := limitedBy(t, "rule : [direct] [uid=5-7] [] [result=2; return=1]\nrule : [count] [uid=1-99] [time=60; count=1] [result=2; return=2]", noon)
		for _, uid := range []string{"7", "07", "%207", "7%20", "+007+", "%097"} {
			c.want("uid="+uid, 1)
		}
		c.want("uid=8", 0, 2)
		c.want("uid=%2008+", 2)
	},
	"an argument without a value hides those behind it": func(t *testing.T) {
		c := limitedBy(t, `rule : [direct] [uid=7] [] [result=2; return=1]`, noon)
		for _, query := range []string{"x&uid=7", "&x&uid=7", "a=1&x&uid=7", "=&uid=7", "%zz&uid=7"} {
			c.want(query, 1)
		}
	},
	"spaces in a condition turn it into its opposite": func(t *testing.T) {
		c := limitedBy(t, "rule : [direct] [uid ! = 7,8] [] [result=2; return=1]", noon)
		c.want("uid=7", 0)
		c.want("uid=9", 1)
	},
	"a block with a wildcard in the middle matches other networks": func(t *testing.T) {
		c := limitedBy(t, `rule : [direct] [ip=10.*.24.*] [] [result=2; return=1]`, noon)
		c.want("ip=10.1.24.1", 1)
		c.want("ip=10.1.99.1", 0)
	},
	"IPv6 is never limited": func(t *testing.T) {
		c := limitedBy(t, `rule : [count] [ip=+] [time=60; count=1] [result=2; return=1]`, noon)
		c.want("ip=2001:db8::1", 0, 1)
		c.want("ip=10.0.0.1", 0, 1)
	},
	"the days of base end in UTC": func(t *testing.T) {
		const hour = 3600 * 1000
		rule := "[settings]\ntimezone : Asia/Shanghai\n[rules]\nrule : [base] [uid=+] [base=1; time=86400; count=1] [result=2; return=1]"
		clock := new(atomic.Int64)
		c := limited(t, rule, clock)
		clock.Store(noon + 11*hour) // 23:00 in Shanghai
		c.want("uid=1", 0, 1)
		clock.Store(noon + 13*hour) // 01:00, 17:00 of the same day in UTC
		c.want("uid=1", 0)
	},
	"an unknown time zone switches limits off": func(t *testing.T) {
		wantError(t, "[settings]\ntimezone : Mars/Phobos\n[rules]\nrule : [count] [uid=+] [time=86400; count=1] [result=2; return=1]"+entries)
	},
	"an empty rule file allows everything": func(t *testing.T) {
		wantError(t, "")
		wantError(t, "[rules]"+entries)
	},
	"a stray line ends the process": func(t *testing.T) {
		wantError(t, "x\n[rules]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=1]"+entries)
		wantError(t, "[rules]\nrule\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=1]"+entries)
		wantError(t, "[rules]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=1]\n:\n]["+entries)
	},
	"a missing password of Redis switches limits off": func(t *testing.T) {
		server := storetest.StartServer(t)
		admin := server.Client()
		defer admin.Close()
		if err := admin.ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
			t.Fatal(err)
		}
		s := storetest.OpenRescue(t, redis.Options{URL: server.URL()}, rescue.Options{})
		c := dial(t, koala.Options{Access: koala.Full, Hosts: []string{"127.0.0.1"}, Engine: engine.New(
			parse(t, "[rules]\nrule : [count] [uid=+] [time=3600; count=2] [result=2; return=1]"+entries), wiring.CountIn(s))})
		c.want("uid=1", 0, 0, 1)
	},
	"calls of several questions ignore black lists": func(t *testing.T) {
		c := limitedBy(t, `rule : [direct] [uid=7] [] [result=2; return=1]`, noon)
		_, body := c.ask(multi(`[{"Id":"0","Arg":"uid=8"},{"Id":"1","Arg":"uid=7"}]`))
		if strings.Count(body, `"Err_no":10`) != 1 {
			t.Errorf("%s; want one refusal", body)
		}
	},
	"callers can forge lines of the log": func(t *testing.T) {
		var log bytes.Buffer
		o := options(t)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c := dial(t, o)
		c.ask("GET /x%0alevel=ERROR%20msg=forged")
		c.server.Close()
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("%d lines:\n%s", lines, log.String())
		}
	},
}

// TestFaultsOfKoala shows that calls which Koala answers wrongly are answered correctly.
func TestFaultsOfKoala(t *testing.T) {
	for name, test := range faults {
		t.Run(name, test)
	}
}

// entries are the entries of rule files.
const entries = `
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// limited opens the door with rules and a clock.
func limited(t *testing.T, text string, clock *atomic.Int64) *caller {
	t.Helper()
	m := memory.New(memory.Options{Clock: clock.Load})
	t.Cleanup(func() { m.Close() })
	return dial(t, koala.Options{Engine: engine.New(parse(t, text+entries), wiring.CountIn(m)), Access: koala.Full, Hosts: []string{"127.0.0.1"}})
}

// limitedBy opens the door with rules at an instant.
func limitedBy(t *testing.T, lines string, now int64) *caller {
	t.Helper()
	clock := new(atomic.Int64)
	clock.Store(now)
	return limited(t, "[rules]\n"+lines, clock)
}

// rule takes a hit, and returns the number of the rule that refuses it, or 0.
func (c *caller) rule(query string) int {
	c.t.Helper()
	_, body := c.ask("GET /rule/take?" + query)
	_, code, _ := strings.Cut(body, `"Ret_code":`)
	code, _, _ = strings.Cut(code, ",")
	n, err := strconv.Atoi(code)
	if err != nil {
		c.t.Errorf("%s is answered %s; want an entry", query, body)
	}
	return n
}

// want takes hits, and checks the number of the rule that refuses each, or 0.
func (c *caller) want(query string, refusers ...int) {
	c.t.Helper()
	for i, want := range refusers {
		if got := c.rule(query); got != want {
			c.t.Errorf("hit %d of %q is decided by %d; want %d", i+1, query, got, want)
		}
	}
}

// atOnce takes 200 hits concurrently and checks that exactly the limit is admitted.
func atOnce(t *testing.T, rule string, limit int64) {
	t.Helper()
	c := limitedBy(t, rule, noon)
	var admitted atomic.Int64
	var callers sync.WaitGroup
	for range 200 {
		callers.Go(func() {
			if c.rule("uid=1") == 0 {
				admitted.Add(1)
			}
		})
	}
	callers.Wait()
	if n := admitted.Load(); n != limit {
		t.Errorf("%d of 200 concurrent hits were admitted; want %d", n, limit)
	}
}

// wantError checks that rules are refused with an error that names its place.
func wantError(t *testing.T, text string) {
	t.Helper()
	_, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if !findings.HasErrors() || !strings.Contains(fmt.Sprint(findings), "rules.conf") {
		t.Errorf("%q: %v; want an error with its place", text, findings)
	}
}
