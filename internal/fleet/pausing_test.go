package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// caller is a context that counts the pauses of work, and whose caller leaves at one of them.
type caller struct {
	context.Context
	leave  context.CancelFunc
	pauses int
	last   int
}

func newCaller(t *testing.T, last int) *caller {
	ctx, leave := context.WithCancel(pace.With(t.Context()))
	t.Cleanup(leave)
	return &caller{ctx, leave, 0, last}
}

func (c *caller) Err() error {
	if c.pauses++; c.pauses == c.last {
		c.leave()
	}
	return c.Context.Err()
}

// The comparison of two versions pauses at each of their rules, and ends when its caller
// leaves: operators ask for it while decisions go on.
func TestComparingVersionsPauses(t *testing.T) {
	t.Parallel()
	const many = 1000
	r := openRecords(t, storetest.StartServer(t).URL())
	i := startInstance(t, r)
	livingInstances(t, r, 1)
	for limit := 1; limit <= 3; limit++ {
		var text strings.Builder
		text.WriteString("[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n[rules]\n")
		for n := 1; n <= many; n++ {
			fmt.Fprintf(&text, "rule : [count] [uid=+; kind=%d] [time=60; count=%d] [result=2; return=%d]\n", n, limit, n)
		}
		contents := make(Contents)
		m := &Manifest{Author: "ann", Note: "a test", Rules: many, Files: []File{{"rules.conf", contents.add([]byte(text.String()))}}}
		set, _ := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text.String())}}, rules.Options{Timezone: "UTC"})
		m.Hash = set.Hash
		mustPublish(t, r, m, contents)
	}
	// The instance has version 3, and reads the others.
	eventually(t, "version 3 alone is held", func() bool { return i.version() == 3 && i.Member.version(1) == nil && i.Member.version(2) == nil })
	whole := newCaller(t, 0)
	if changes, err := i.Changes(whole, 1, 2); err != nil || changes.Changed != many {
		t.Fatalf("the changes: %+v, %v; want %d changed rules", changes, err, many)
	}
	if least := 2 * 20 * many; whole.pauses < least {
		t.Errorf("%d pauses; want %d at least", whole.pauses, least)
	}
	for last := 1; last < whole.pauses; last += whole.pauses / 7 {
		c := newCaller(t, last)
		if _, err := i.Changes(c, 1, 2); !errors.Is(err, context.Canceled) || c.pauses > last+100 {
			t.Errorf("its caller leaves at pause %d of %d: %v after %d; want the end at once", last, whole.pauses, err, c.pauses)
		}
	}
}
