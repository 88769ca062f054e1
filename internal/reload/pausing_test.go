package reload

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/pace/pacetest"
	"github.com/koalagate/koalagate/rules"
)

// A reload pauses while it reads files, parses them and compares the rules: decisions go on. It ends
// with its context, without new rules.
func TestReloadsPause(t *testing.T) {
	t.Parallel()
	const many, words = 400, 100_000
	var text, list strings.Builder
	text.WriteString("[dicts]\nwords : words\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n[rules]\n")
	for n := 1; n <= many; n++ {
		fmt.Fprintf(&text, "rule : [count] [uid=+; kind=%d; word @ words] [time=60; count=%d] [result=2; return=%d]\n", n, n, n)
	}
	for n := range words {
		fmt.Fprintf(&list, "word%d\n", n)
	}
	b := newBench(t, ruleText(1))
	b.write(t, text.String())
	b.sleep = func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil }
	load := func(words string, last int) (pauses int, loaded *rules.Set) {
		t.Helper()
		write(t, filepath.Join(b.dir, "words"), words)
		e := pacetest.New(t.Context(), t, last)
		b.load(e, func(s *rules.Set) { loaded = s }, false)
		return e.Pauses, loaded
	}
	few, set := load("word", 0)
	if least := 20 * many; set == nil || few < least {
		t.Errorf("%d pauses for %d rules; want %d at least: %s", few, many, least, b.log)
	}
	all, set := load(list.String(), 0)
	if least := few + list.Len()/(128<<10); set == nil || all < least {
		t.Errorf("%d pauses, %d of them without a list of %d bytes; want %d at least: %s", all, few, list.Len(), least, b.log)
	}
	before := b.State()
	for last := 1; last < all; last += all / 5 {
		if pauses, loaded := load(list.String()+strings.Repeat("more\n", last), last); loaded != nil || pauses > last+1 {
			t.Errorf("its context ends at pause %d of %d: %v after %d; want no rules", last, all, loaded, pauses)
		}
	}
	if after := b.State(); after.Generation != before.Generation || after.LastError != "" {
		t.Errorf("after reloads that ended early: %+v; want %+v", after, before)
	}
	compared := pacetest.New(t.Context(), t, 0)
	b.accept(pace.With(compared), b.active, nil, func(*rules.Set) {})
	if compared.Pauses < many {
		t.Errorf("%d pauses while %d rules are compared", compared.Pauses, many)
	}
}

// Once a rule set decides, State says so at once: everything that takes long comes before.
func TestStateNamesTheRulesThatDecide(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n[rules]\n")
	for n := 1; n <= 1000; n++ {
		fmt.Fprintf(&text, "rule : [count] [uid=+; kind=%d] [time=60; count=1] [result=2; return=%d]\n", n, n)
	}
	b := newBench(t, ruleText(1))
	b.write(t, text.String())
	b.sleep = func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil }
	e := pacetest.New(t.Context(), t, 0)
	applied := 0
	var before State
	b.load(e, func(*rules.Set) { applied, before = e.Pauses, b.State() }, false)
	if applied == 0 || e.Pauses != applied {
		t.Errorf("%d pauses after the rules decided, %d before; want none", e.Pauses-applied, applied)
	}
	if after := b.State(); after.Generation != before.Generation+1 {
		t.Errorf("generation %d before the rules decided, %d after", before.Generation, after.Generation)
	}
}
