package koala_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ruleFile = `[rules]
rule : [direct] [uid=666] [time=1; count=0;] [result=2; return=103]
rule : [count] [act=post; uid=+] [time=90; count=2;] [result=2; return=201]
rule : [count] [act=post; uid=+] [time=3600; count=4;] [result=3; return=202]
rule : [leak] [act=login; uid=+] [time=60; count=5; erase1=1; erase2=3] [result=3; return=301]
[result]
0 : {"Ret_type":0, "Err_no":0, "Str_reason":"Allow"}
1 : {"Ret_type":1, "Err_no":0, "Str_reason":"Allow"}
2 : {"Ret_type":2, "Ret_code":500, "Err_no":10, "Str_reason":"Deny"}
3 : {"Ret_type":3, "Err_no":20, "Err_msg":"验证码", "Str_reason":"Vcode", "Need_vcode":1, "Vcode_len":4, "Vcode_type":2, "Other":"<x>", "Version":7}
`

// The replies with the entries of the rule file.
const (
	noRule   = `{"Ret_type":0,"Ret_code":0,"Err_no":0,"Err_msg":"","Str_reason":"Allow","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	allowed  = `{"Ret_type":1,"Ret_code":0,"Err_no":0,"Err_msg":"","Str_reason":"Allow","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	by103    = `{"Ret_type":2,"Ret_code":103,"Err_no":10,"Err_msg":"","Str_reason":"Deny","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	by201    = `{"Ret_type":2,"Ret_code":201,"Err_no":10,"Err_msg":"","Str_reason":"Deny","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	vcode    = `,"Err_no":20,"Err_msg":"验证码","Str_reason":"Vcode","Need_vcode":1,"Vcode_len":4,"Vcode_type":2,"Other":"<x>","Version":7}`
	by202    = `{"Ret_type":3,"Ret_code":202` + vcode
	by301    = `{"Ret_type":3,"Ret_code":301` + vcode
	done     = `{"err_no":0, "err_msg":"OK"}`
	readOnly = `{"err_no":-1, "err_msg":"koala_api is read, which does not allow this call; set koala_api to full to allow it"}`
	closed   = `{"err_no":-1, "err_msg":"koala_api is off, which does not allow this call; set koala_api to full to allow it"}`
	noToken  = `{"err_no":-1, "err_msg":"the call needs the token of koala_token: Authorization: Bearer TOKEN"}`
)

// noon is 2026-06-01 12:00:00 in Shanghai, in ms since the epoch.
const noon = 1780286400000

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatalf("the rules have errors: %v", findings)
	}
	return set
}

// options returns the options of an open door with a new store whose clock stays at
// noon.
func options(t testing.TB) koala.Options {
	t.Helper()
	m := memory.New(memory.Options{Clock: func() int64 { return noon }})
	t.Cleanup(func() { m.Close() })
	return koala.Options{
		Engine: engine.New(parse(t, ruleFile), wiring.CountIn(m)), Access: koala.Full,
		Hosts:  []string{"example.com"}, // that of httptest
		Logger: slog.New(slog.DiscardHandler),
	}
}

// TestUnknownPathsAreLogged: most calls of unknown paths come from gateways, which may
// fail open silently.
func TestUnknownPathsAreLogged(t *testing.T) {
	var log bytes.Buffer
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := dial(t, o)
	for range 5 {
		c.ask("GET /auth")
	}
	c.server.Close()
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "path=/auth ") || !strings.Contains(log.String(), "path_prefix") {
		t.Errorf("the log has %d lines; want one that names the path and the doors:\n%s", lines, log.String())
	}
}

// caller is an application that calls a real server on loopback.
type caller struct {
	t      testing.TB
	server *httptest.Server
	token  string
}

func dial(t testing.TB, o koala.Options) *caller {
	t.Helper()
	s := httptest.NewServer(koala.New(o))
	t.Cleanup(s.Close)
	return &caller{t: t, server: s}
}

// ask sends `GET target` or `POST target form`.
func (c *caller) ask(line string) (status int, body string) {
	c.t.Helper()
	method, target, _ := strings.Cut(line, " ")
	target, form, _ := strings.Cut(target, " ")
	kind := ""
	if form != "" {
		kind = "application/x-www-form-urlencoded"
	}
	return c.send(method, target, kind, form)
}

// send may be called by any goroutine: a call that fails has status 0.
func (c *caller) send(method, target, kind, form string) (status int, body string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+target, strings.NewReader(form))
	if err != nil {
		c.t.Error(err)
		return 0, ""
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		r.Header.Set("Authorization", c.token)
	}
	res, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Error(err)
	}
	return res.StatusCode, string(b)
}

// expect sends each line and compares the complete status and body.
func (c *caller) expect(dialogue []exchange) {
	c.t.Helper()
	for i, x := range dialogue {
		status, body := c.ask(x.ask)
		want := x.status
		if want == 0 {
			want = 200
		}
		if status != want || body != x.reply {
			c.t.Errorf("line %d, %s:\n%d %s\nwant\n%d %s", i+1, x.ask, status, body, want, x.reply)
		}
	}
}

type exchange struct {
	ask    string
	reply  string
	status int // 200 unless said
}

func TestParallelCallsAreCountedExactlyAndDoNotMix(t *testing.T) {
	c := dial(t, options(t))
	var passed atomic.Int32
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			if status, body := c.ask("GET /rule/take?act=post&uid=1"); status == 200 && body == allowed {
				passed.Add(1)
			}
		})
		group.Go(func() {
			if status, body := c.ask("POST /rule/browse uid=666"); status != 200 || body != by103 {
				t.Errorf("%d %s; want %s", status, body, by103)
			}
		})
	}
	group.Wait()
	if n := passed.Load(); n != 2 {
		t.Errorf("%d calls passed; want 2", n)
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		name, contentType, form string
		status                  int
		reply                   string
	}{
		{"a form", "application/x-www-form-urlencoded; charset=utf-8", "uid=666", 200, by103},
		{"one of no type", "", "uid=666", 200, by103},
		{"none of another type", "multipart/form-data; boundary=x", "", 200, noRule},
		{"one of another type", "multipart/form-data; boundary=x", "--x--", 415, `{"err_no":-1, "err_msg":"want a form of type application/x-www-form-urlencoded"}`},
		{"one that is too long", "application/x-www-form-urlencoded", strings.Repeat("x", 65537), 413, `{"err_no":-1, "err_msg":"the form is longer than 65536 bytes"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := dial(t, options(t)).send("POST", "/rule/browse", c.contentType, c.form)
			if status != c.status || body != c.reply {
				t.Errorf("%d %s\nwant\n%d %s", status, body, c.status, c.reply)
			}
		})
	}
}

func TestAccess(t *testing.T) {
	calls := []struct {
		ask    string
		writes bool
	}{
		{"GET /rule/browse?uid=1", false},
		{"GET /rule/browse?uid=1&_writeThrough=yes", true},
		{"POST /rule/browse uid=1&_writeThrough=yes", true},
		{"GET /rule/take?uid=1", true},
		{"GET /rule/browse_complete?uid=1", false},
		{"GET /rule/browse_complete?uid=1&_writeThrough=yes", true},
		{"GET /rule/update?act=post&uid=1", true},
		{"GET /rule/refund?act=post&uid=1", true},
		{"GET /rule/feedback?uid=1", true},
		{"GET /rule/value?act=post&uid=1&rule_no=201", false},
		{"GET /rule/reset?act=post&uid=1&rule_no=201", true},
		{"GET /multi/browse?argsJson=[]", false},
		{"GET /monitor/alive", false},
		{"GET /admin/allrules", false},
	}
	for _, access := range []koala.Access{koala.Full, koala.Read, koala.Off, ""} {
		o := options(t)
		o.Access = access
		c := dial(t, o)
		for _, call := range calls {
			want, reply := 200, ""
			switch {
			case access == koala.Off || access == "":
				want, reply = 403, closed
			case access == koala.Read && call.writes:
				want, reply = 403, readOnly
			}
			status, body := c.ask(call.ask)
			if status != want || reply != "" && body != reply {
				t.Errorf("koala_api %q, %s: %d %s; want %d %s", access, call.ask, status, body, want, reply)
			}
		}
	}
}

func TestToken(t *testing.T) {
	o := options(t)
	o.Token = "s3cret-token"
	c := dial(t, o)
	for token, want := range map[string]int{
		"Bearer s3cret-token":  200,
		"bearer s3cret-token":  200,
		"":                     403,
		"Bearer":               403,
		"Bearer s3cret-toke":   403,
		"Bearer s3cret-token1": 403,
		"Basic s3cret-token":   403,
		"s3cret-token":         403,
	} {
		c.token = token
		status, body := c.ask("GET /rule/browse?uid=1")
		if status != want || want == 403 && body != noToken {
			t.Errorf("Authorization %q: %d %s; want %d", token, status, body, want)
		}
	}
}

func TestAliveReportsRedis(t *testing.T) {
	var away atomic.Bool
	o := options(t)
	o.RedisAway = away.Load
	c := dial(t, o)
	c.expect([]exchange{{ask: "GET /monitor/alive", reply: `{"errno": 0, "errmsg": "OK!"}`}})
	away.Store(true)
	c.expect([]exchange{{ask: "GET /monitor/alive", reply: `{"errno": -1, "errmsg": "redis-error!"}`, status: 500}})
}

func TestAllRulesNamesSeveralFiles(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{
		{Name: "a.conf", Text: []byte(ruleFile)},
		{Name: "b.conf", Text: []byte("[rules]\nrule : [count] [act=b] [time=1; count=1;] [result=2; return=900]")},
	}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	o := options(t)
	o.Engine.Swap(set)
	dial(t, o).expect([]exchange{{ask: "GET /admin/allrules", reply: "# a.conf\n" + ruleFile +
		"# b.conf\n[rules]\nrule : [count] [act=b] [time=1; count=1;] [result=2; return=900]\n"}})
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		broken storetest.Failing
		reply  string
	}{
		"no store answers": {storetest.Failing{Err: errors.New("connection refused")}, `{"err_no":-1, "err_msg":"no store answers"}`},
		"a panic":          {storetest.Failing{}, `{"err_no":-1, "err_msg":"internal error; the service's log has the details"}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.Engine = engine.New(parse(t, ruleFile), wiring.CountIn(c.broken))
			dial(t, o).expect([]exchange{
				{ask: "GET /rule/browse?act=post&uid=1", reply: c.reply, status: 503},
				{ask: "GET /rule/update?act=post&uid=1", reply: c.reply, status: 503},
				{ask: "GET /rule/browse?uid=666", reply: by103},
			})
		})
	}
}

func TestRepliesAreTypedAndKeepTheConnection(t *testing.T) {
	c := dial(t, options(t))
	for target, kind := range map[string]string{
		"/rule/browse?uid=666":   "application/json",
		"/rule/browse?_hits=bad": "application/json",
		"/none":                  "application/json",
		"/admin/allrules":        "text/plain; charset=utf-8",
	} {
		res, err := c.server.Client().Get(c.server.URL + target)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Content-Type"); got != kind || res.Close {
			t.Errorf("%s: type %q, close %v; want %q on a kept connection", target, got, res.Close, kind)
		}
	}
}
