package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/pace/pacetest"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

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
	whole := pacetest.New(pace.With(t.Context()), t, 0)
	if changes, err := i.Changes(whole, 1, 2); err != nil || changes.Changed != many {
		t.Fatalf("the changes: %+v, %v; want %d changed rules", changes, err, many)
	}
	if least := 2 * 20 * many; whole.Pauses < least {
		t.Errorf("%d pauses; want %d at least", whole.Pauses, least)
	}
	for last := 1; last < whole.Pauses; last += whole.Pauses / 7 {
		c := pacetest.New(pace.With(t.Context()), t, last)
		if _, err := i.Changes(c, 1, 2); !errors.Is(err, context.Canceled) || c.Pauses > last+100 {
			t.Errorf("its caller leaves at pause %d of %d: %v after %d; want the end at once", last, whole.Pauses, err, c.Pauses)
		}
	}
}
