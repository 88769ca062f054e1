package rig

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// Probe runs `koalagate probe`, checks its exit status and that its output contains
// the texts, and returns the output.
func Probe(t *testing.T, code int, want []string, args ...string) string {
	t.Helper()
	out, err := exec.Command(Binary, append([]string{"probe"}, args...)...).CombinedOutput()
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("exit status %d, want %d", got, code)
	}
	for _, text := range want {
		if !strings.Contains(string(out), text) {
			t.Errorf("the output lacks %q", text)
		}
	}
	if t.Failed() {
		t.Logf("koalagate probe %s\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// TestFact runs the test of a fact of docs/gateways/facts-http.md.
func TestFact(t *testing.T, number int, test func(*testing.T)) {
	t.Helper()
	t.Run(fmt.Sprintf("GW-%d", number), test)
}

// Comments returns the probe's arguments for requests of a user, five of which pass.
func Comments(g *e2e.Gateway, user string) []string {
	return []string{g.URL + "/api/comments", "--method", "POST", "--header", "X-User-Id: " + user, "--requests", "20"}
}
