package operators_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The commands that `make run` prints, pasted into a shell, end in a 429 with
// Retry-After.
func TestCommandsOfMakeRunEndInA429(t *testing.T) {
	h := rig.NewFixture(t)
	for _, program := range []string{"bash", "curl"} {
		if _, err := h.Stage.Find(program); err != nil {
			t.Fatal(err)
		}
	}
	run := rig.Must(h.Stage.Script("deploy/run.sh", "KOALAGATE="+rig.Binary))(t)
	rig.WaitUntil(t, "the curl commands are printed", func() bool { return strings.Contains(run.Log(), "^C stops") })

	out := paste(t, run, "for i in 1 2 3 4 5")
	answers := regexp.MustCompile(`HTTP/1.1 (\d+)`).FindAllStringSubmatch(out, -1)
	if len(answers) != 5 || answers[3][1] != "200" || answers[4][1] != "429" {
		t.Errorf("the answers are\n%s\nwant four times 200, then 429", out)
	}
	if !regexp.MustCompile(`(?i)429[^H]*retry-after: \d+`).MatchString(out) {
		t.Errorf("the answers are\n%s\nwant a Retry-After with the 429", out)
	}
	if out := paste(t, run, "curl -s 'http"); !strings.Contains(out, `"Err_no":0`) {
		t.Errorf("Koala's API answers %s, want Err_no 0 for another user", out)
	}
}

// paste runs the printed line that begins with begin.
func paste(t *testing.T, run *e2e.Program, begin string) string {
	t.Helper()
	for line := range strings.Lines(run.Log()) {
		if line := strings.TrimSpace(line); strings.HasPrefix(line, begin) {
			out, err := exec.Command("bash", "-c", line).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			return string(out)
		}
	}
	t.Fatalf("no line begins with %q in\n%s", begin, run.Log())
	return ""
}
