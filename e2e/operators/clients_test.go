package operators_test

import (
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// clients maps the clients in examples/clients to the programs that run them.
var clients = map[string][]string{
	"client.go":  {"go", "run"},
	"client.py":  {"python3"},
	"client.mjs": {"node"},
	"client.php": {"php"},
}

// Each client takes what it expects to use, tells a refusal from a failure, and settles what it
// used, whatever characters a user has.
func TestClientsOfTheAPI(t *testing.T) {
	h := rig.NewFixture(t)
	folder := h.Stage.Path("examples/clients")
	for _, check := range [][]string{{"check", "--strict", folder + "/rules.conf"}, {"test", folder}} {
		if out, err := exec.Command(rig.Binary, check...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", check, err, out)
		}
	}
	samples := rig.Must(os.ReadDir(folder))(t)
	found := 0
	for _, sample := range samples {
		if !strings.HasPrefix(sample.Name(), "client.") {
			continue
		}
		found++
		if clients[sample.Name()] == nil {
			t.Errorf("no program runs examples/clients/%s; add it to the test", sample.Name())
		}
	}
	if found != len(clients) {
		t.Errorf("%d clients in examples/clients; want %d", found, len(clients))
	}
	for name, program := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testClient(t, name, program)
		})
	}
}

func testClient(t *testing.T, name string, program []string) {
	h := rig.NewFixture(t)
	name = "examples/clients/" + name
	text := string(rig.Must(os.ReadFile(h.Stage.Path(name)))(t))
	file := h.File(name[strings.LastIndexByte(name, '/')+1:], rig.Must(e2e.WithLongTimeouts(name, text))(t))
	path := rig.Must(h.Stage.Find(program[0]))(t)
	// run returns what the client writes: to the standard output if it succeeds, else to the
	// standard error.
	run := func(token string, args ...string) (string, bool) {
		t.Helper()
		c := exec.CommandContext(t.Context(), path, append(append(program[1:len(program):len(program)], file), args...)...)
		c.Env = append(os.Environ(), "KOALA_TOKEN="+token)
		var errors strings.Builder
		c.Stderr = &errors
		out, err := c.Output()
		if err != nil {
			return errors.String(), false
		}
		return string(out), true
	}
	rules := h.Stage.Path("examples/clients/rules.conf")
	k := h.Koalagate("--rules", rules, "--redis", h.Redis().URL())
	address := "http://" + k.HTTP
	for _, user := range []string{"ann", "b & act=other/ü+%41"} {
		counter := "rule_no=201&act=export&uid=" + url.QueryEscape(user)
		for _, step := range []struct {
			expected, used, want string
			spent                int
		}{
			{"600", "250", "allowed\n", 250},
			{"751", "0", "refused: Too many rows in this hour\n", 250},
			{"750", "1000", "allowed\n", 1250}, // more than expected counts past the limit
			{"1", "0", "refused: Too many rows in this hour\n", 1250},
		} {
			if out, ok := run("", address, user, step.expected, step.used); !ok || out != step.want {
				t.Errorf("%s expects %s: %q, success %v; want %q", user, step.expected, out, ok, step.want)
			}
			rig.Spent(t, k, counter, step.spent)
		}
	}
	// What the client cannot settle stays counted, and it says why.
	if out, ok := run("", address, "cid", "10", "many"); ok || !strings.Contains(out, "_hits") {
		t.Errorf("a settlement of %q hits: %q, success %v; want an error that names _hits", "many", out, ok)
	}
	rig.Spent(t, k, "rule_no=201&act=export&uid=cid", 10)

	guarded := h.KoalagateWith([]string{"KOALAGATE_KOALA_TOKEN=secret-of-the-test"}, "--rules", rules)
	if out, ok := run("secret-of-the-test", "http://"+guarded.HTTP, "ann", "1", "1"); !ok || out != "allowed\n" {
		t.Errorf("with the token: %q, success %v", out, ok)
	}
	if out, ok := run("wrong", "http://"+guarded.HTTP, "ann", "1", "1"); ok || !strings.Contains(out, "oken") {
		t.Errorf("with a wrong token: %q, success %v; want an error that names the token", out, ok)
	}
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	if out, ok := run("", address, "ann", "1", "1"); ok || out == "" {
		t.Errorf("without an instance: %q, success %v; want an error", out, ok)
	}
	if out, ok := run("", address); ok || !strings.Contains(out, "usage: client") {
		t.Errorf("without arguments: %q, success %v; want the usage", out, ok)
	}
}
