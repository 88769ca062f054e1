package operators_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// logText is the output of a program, which a test reads meanwhile.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the text.
func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The demo shows what rules count, and its drills what they promise.
func TestDemo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", program, "../demo").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := new(logText)
	keys, in := io.Pipe()
	c := exec.Command(program, "-koalagate", rig.Binary, "-test")
	c.Env = append(os.Environ(), rig.RaceSettings...)
	c.Stdin, c.Stdout, c.Stderr = keys, out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // it has ended, unless the test failed
	for begin := time.Now(); !strings.Contains(out.String(), "q  stop everything"); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("the demo does not start:\n%s", out)
		}
	}
	for _, step := range []struct{ key, want string }{
		{"s", `(?s)4 × 200 OK\n.*26 × 429 Too Many Requests\n`},
		{"", `rule 201: 4 admitted \(\+\d+\), 26 refused \(\+\d+\)`},
		{"3", `calls: [1-9]\d* newly refused`},
		{"2", `keep generation 1 of the rules:\n.*unknown method`},
		{"2", `The mistake is gone`},
		{"1", `Redis is killed`},
		{"s", `decided without Redis`},
		{"1", `Redis runs again`},
		{"q", `stopping`},
	} {
		press := func() {
			if _, err := io.WriteString(in, step.key+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		if step.key != "" {
			press()
		}
		pressed := time.Now()
		rig.WaitUntil(t, "the demo prints "+step.want, func() bool {
			if step.key == "3" && time.Since(pressed) > 3*time.Second { // the decision log is written later
				press()
				pressed = time.Now()
			}
			return regexp.MustCompile(step.want).MatchString(out.String())
		})
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("the demo ends with %v:\n%s", err, out)
	}
}
