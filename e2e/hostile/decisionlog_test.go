package hostile_test

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// hostileDecision contains a request's parameters as the rules saw them.
type hostileDecision struct {
	Method, Path, Host, Act, UID string
	Verdict                      string
}

// decisionLog reads the decision log of an instance.
type decisionLog struct {
	file string
	read int64 // the bytes of earlier lines
}

// of reads the log until it has a line for every entry that is not exempt, or a timeout.
// It returns the decisions since its last call, by trace.
func (l *decisionLog) of(t *testing.T, entries map[string][]e2e.Entry) map[string][]hostileDecision {
	t.Helper()
	decisions := make(map[string][]hostileDecision)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		l.append(t, decisions)
		missing := false
		for trace, list := range entries {
			missing = missing || len(decisions[trace]) < len(list) && !exempt(list[0].Target)
		}
		if !missing || time.Now().After(deadline) {
			return decisions
		}
	}
}

// append adds the complete lines since the last call. It skips the rate limit service,
// whose calls contain no request.
func (l *decisionLog) append(t *testing.T, decisions map[string][]hostileDecision) {
	t.Helper()
	f := rig.Must(os.Open(l.file))(t)
	defer f.Close()
	if _, err := f.Seek(l.read, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text := string(rig.Must(io.ReadAll(f))(t))
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			return
		}
		l.read += int64(len(line))
		var d struct {
			Params struct{ Method, Path, Host, Act, UID, Trace string }
			Answer struct{ Verdict string }
		}
		if json.Unmarshal([]byte(line), &d) != nil || d.Params.Trace == "" {
			continue
		}
		p := d.Params
		decisions[p.Trace] = append(decisions[p.Trace], hostileDecision{p.Method, p.Path, p.Host, p.Act, p.UID, d.Answer.Verdict})
	}
}
