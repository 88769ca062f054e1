package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Parsing, formatting and comparing pause at each rule in each of their steps: a step over all
// rules at once would delay the decisions of a service.
func TestEachStepPauses(t *testing.T) {
	const many = 500
	var text strings.Builder
	text.WriteString("[params]\nuid : header X-User-Id\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n[rules]\n")
	for i := 1; i <= many; i++ {
		fmt.Fprintf(&text, "rule : [count] [uid=+; kind<%d] [time=60; count=5] [result=2; return=%d; name=n%d]\n", i, i, i)
	}
	source := Source{Name: "rules.conf", Text: []byte(text.String())}
	steps := make(map[string]int) // how often each function has paused
	pause := func() bool {
		var callers [8]uintptr
		for frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])]); ; {
			frame, more := frames.Next()
			if name := frame.Function[strings.LastIndexByte(frame.Function, '.')+1:]; !strings.HasPrefix(name, "func") {
				steps[name]++
			}
			if !more {
				return true
			}
		}
	}
	set, findings := Parse([]Source{source}, Options{Pause: pause, Now: time.Now})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	if changes := ComparePausing(set, set, pause); !changes.Empty() {
		t.Error(changes)
	}
	FormatPausing(source, pause)
	for _, step := range []string{
		"lines", "checkDicts", "checkRules", "checkRuleNames", "checkInstants", "newIndex", "newCrowd", "newRangeTree", "warnDays", "warnUncounted", "warnQueues",
		"warnBans", "warnSettling", "warnRefusals", "warnUnreachable", "warnOver", "warnSupply", "warnDerived", "warnDoors", "warnHashed", "warnLower", "warnTrust",
		"ComparePausing", "read", "columns", "columnWidths", "layOut",
	} {
		if steps[step] < many {
			t.Errorf("%s pauses %d times for %d rules", step, steps[step], many)
		}
	}
}
