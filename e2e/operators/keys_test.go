package operators_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
	"github.com/koalagate/koalagate/internal/apikey"
)

// A thousand commands at once add their keys to one table: each that it prints is in the table
// once, and a command with an error adds none.
func TestThousandNewKeysAtOnce(t *testing.T) {
	if !*long {
		return // the stories of koalagate run twenty commands at once
	}
	h := rig.NewFixture(t)
	program, table := h.Released(), h.File("keys.csv", "key,tenant\n")
	var mu sync.Mutex
	want := make(map[string]bool) // rows
	rig.Concurrently(1000, func(i int) {
		tenant := fmt.Sprintf("t%d", i)
		out, err := exec.CommandContext(t.Context(), program, "key", "new", "--table", table, "tenant="+tenant).Output()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s: %v", tenant, err)
			return
		}
		want[apikey.Hash(strings.TrimSpace(string(out)))+","+tenant] = true
	})
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	if len(rows) != len(want) {
		t.Errorf("the table has %d keys; want %d", len(rows), len(want))
	}
	for _, row := range rows {
		if !want[row] {
			t.Errorf("no command has added %s, or it is there twice", row)
		}
		delete(want, row)
	}
}
