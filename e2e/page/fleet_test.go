package page

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// The tokens of all instances.
const (
	changeToken = "token-for-changes-0123456789"
	readToken   = "token-for-reading-0123456789"
)

// redisBudget is so large that no call is decided without Redis because the machine is busy.
const redisBudget = "KOALAGATE_REDIS_BUDGET=5s"

// receiveTimeout is so long that a request whose body does not end lasts as long as a test.
const receiveTimeout = "KOALAGATE_HTTP_RECEIVE_TIMEOUT=10m"

// ruleFile has a rule for comments of a user, one for log-ins of an address, and one that
// only observes.
const ruleFile = `[params]
uid : header X-User-Id else client-ip

[routes]
POST /api/comments : act=comment
POST /login        : act=login

[rules]
rule : [count] [act=comment; uid=+] [time=3600; count=4]   [result=2; return=201; name=comments]
rule : [leak]  [act=login; ip=+]    [time=300; count=10; ban=600] [result=2; return=202; name=logins]
rule : [count] [act=comment; ip=+]  [time=60; count=1000] [result=2; return=203; shadow=1]

[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"Too many"}
[end]
`

// fleet is a set of instances.
type fleet struct {
	*testing.T
	stage *e2e.Stage
	redis *e2e.Redis // nil without one
	one   *e2e.Koalagate
	two   *e2e.Koalagate // nil without one
	log   string         // the decision log of the instance that was started last
	// isDefault leaves the settings at their defaults: values are masked, and a token for changes
	// is in a file.
	isDefault bool
}

// newFleet returns a fleet without instances.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	stage, err := e2e.NewStage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, p := range stage.Programs() {
				log := p.Log()
				t.Logf("--- %s\n%s", p.Name, log[max(0, len(log)-3000):])
			}
		}
	})
	return &fleet{T: t, stage: stage}
}

// publishedFleet starts two instances with published rules.
func publishedFleet(t *testing.T, rules string, args ...string) *fleet {
	t.Helper()
	return newFleet(t).published(rules, args...)
}

// published starts two instances with published rules.
func (f *fleet) published(rules string, args ...string) *fleet {
	f.Helper()
	var err error
	if f.redis, err = f.stage.Redis(); err != nil {
		f.Fatal(err)
	}
	args = append([]string{"--rules", "redis:", "--redis", f.redis.URL()}, args...)
	f.one, f.two = f.serve(args...), f.serve(args...)
	for _, k := range []*e2e.Koalagate{f.one, f.two} {
		f.until("the instance listens", k.ReadAddresses)
	}
	f.publish(rules)
	f.ready(f.one)
	f.ready(f.two)
	return f
}

// fileFleet starts one instance with a rule file.
func fileFleet(t *testing.T, rules string, args ...string) *fleet {
	t.Helper()
	return newFleet(t).withFile(rules, args...)
}

// withFile starts one instance with a rule file.
func (f *fleet) withFile(rules string, args ...string) *fleet {
	f.Helper()
	f.one = f.serve(append([]string{"--rules", f.file("rules.conf", rules)}, args...)...)
	f.until("the instance listens", f.one.ReadAddresses)
	f.ready(f.one)
	return f
}

func (f *fleet) serve(args ...string) *e2e.Koalagate {
	f.Helper()
	dir := f.TempDir()
	f.log = filepath.Join(dir, "decisions.jsonl")
	env := []string{redisBudget, receiveTimeout, "KOALAGATE_DRAIN_WAIT=0s"}
	if !f.isDefault {
		env = append(env, "KOALAGATE_ADMIN_TOKEN="+changeToken, "KOALAGATE_ADMIN_READ_TOKEN="+readToken,
			"KOALAGATE_DECISION_LOG="+f.log, "KOALAGATE_DECISION_LOG_PARAMS=all")
	}
	if !f.isDefault {
		args = append(args, "--state-dir", dir)
	}
	k, err := f.stage.Serve(binary, env, args...)
	if err != nil {
		f.Fatal(err)
	}
	return k
}

// file writes a file and returns its path.
func (f *fleet) file(name, text string) string {
	f.Helper()
	path := filepath.Join(f.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	return path
}

// until waits for a condition.
func (f *fleet) until(what string, is func() bool) {
	f.Helper()
	for end := time.Now().Add(*patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("waited in vain until %s", what)
		}
	}
}

func (f *fleet) ready(k *e2e.Koalagate) {
	f.Helper()
	f.until("the instance is ready", func() bool { r, err := k.Readyz(); return err == nil && r.Ready })
}

// get returns a document of the API of the first instance.
func (f *fleet) get(path string) string {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "http://"+f.one.Admin+"/api/v1/"+path, http.NoBody)
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+f.changeToken())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		f.Fatalf("GET %s: %d %s (%v)", path, resp.StatusCode, body, err)
	}
	return string(body)
}

// has waits until an instance decides by a version.
func (f *fleet) has(version string) {
	f.Helper()
	f.until("version "+version+" is in force", func() bool { return strings.Contains(f.get("state"), `"version": `+version+",") })
}

// publish publishes rules by the command, as somebody else.
func (f *fleet) publish(rules string) {
	f.Helper()
	f.command("publish", f.file("rules.conf", rules), "--note", "from the command", "--author", "eve@desk")
}

// changeToken returns the token for changes.
func (f *fleet) changeToken() string {
	if f.isDefault {
		return f.one.ChangeToken()
	}
	return changeToken
}

// command runs a command that changes something at the first instance.
func (f *fleet) command(args ...string) {
	f.Helper()
	args = append(args, "--admin", f.one.Admin, "--token-file", f.file("token", f.changeToken()))
	if out, err := exec.CommandContext(f.Context(), binary, args...).CombinedOutput(); err != nil {
		f.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// call asks whether a user at an address may post to a path, as nginx does, and returns the
// status.
func (f *fleet) call(path, user, ip string) int {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "http://"+f.one.HTTP+"/v1/auth-request", http.NoBody)
	if err != nil {
		f.Fatal(err)
	}
	for name, value := range map[string]string{"X-Original-Method": "POST", "X-Original-URI": path, "X-Real-IP": ip, "X-User-Id": user} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// comment asks whether a user may comment.
func (f *fleet) comment(user string) int {
	f.Helper()
	return f.call("/api/comments", user, "203.0.113.7")
}

// refuse comments as a user until the user is refused.
func (f *fleet) refuse(user string) {
	f.Helper()
	for range 50 {
		if f.comment(user) != http.StatusOK {
			return
		}
	}
	f.Fatalf("%.50q is not refused", user)
}
