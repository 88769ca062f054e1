package reload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// tableRules is a rule file with a limit from the table plans.csv beside it.
const tableRules = `[tables]
plans : plans.csv
[rules]
rule : [count] [tenant=+] [time=60; count=table plans.rate by tenant else 5] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// limitOf returns the count of a tenant in a set.
func limitOf(t *testing.T, set *rules.Set, tenant string) int64 {
	t.Helper()
	p := new(rules.Params)
	p.Set("tenant", tenant)
	var m rules.Matches
	if set.Match(p, &m); len(m.List) != 1 {
		t.Fatalf("%d rules match", len(m.List))
	}
	return m.List[0].Limits.Count
}

func TestTablesAreReloadedAndReused(t *testing.T) {
	dir := t.TempDir()
	path, csv := filepath.Join(dir, "rules.conf"), filepath.Join(dir, "plans.csv")
	write(t, path, tableRules)
	write(t, csv, "tenant,rate\nacme,7\n")
	files := Files{Paths: []string{path}}
	first := newReader(nil)
	set, findings, err := files.load(t.Context(), first)
	if err != nil || set == nil {
		t.Fatal(findings, err)
	}
	if n := limitOf(t, set, "acme"); n != 7 {
		t.Errorf("the limit is %d, want 7", n)
	}
	if first.changed() {
		t.Error("files that nothing changed have changed")
	}
	second := newReader(first)
	if again, _, _ := files.load(t.Context(), second); again.Tables["plans"] != set.Tables["plans"] {
		t.Error("a table that has not changed was parsed again")
	}
	write(t, csv, "tenant,rate\nacme,8\n")
	if !second.changed() {
		t.Error("a change of a table is not noticed")
	}
	changed, findings, err := files.load(t.Context(), newReader(second))
	if err != nil || changed == nil {
		t.Fatal(findings, err)
	}
	if limitOf(t, changed, "acme") != 8 || limitOf(t, set, "acme") != 7 || changed.Hash == set.Hash {
		t.Error("a changed table is another set, and leaves the former one as it was")
	}
	write(t, csv, "tenant,rate\nacme,x\n")
	bad, findings, err := files.load(t.Context(), newReader(second))
	if err != nil || bad != nil || len(findings) != 1 || findings[0].Position != (rules.Position{File: csv, Line: 2, Column: 6}) {
		t.Errorf("got %v, %v; want one finding in the table", findings, err)
	}
}

// A table that is rewritten while it is read becomes active when it is complete: each
// state of the file on the way is a valid table.
func TestTableIsReadOnceItIsStable(t *testing.T) {
	dir := t.TempDir()
	csv := filepath.Join(dir, "plans.csv")
	write(t, csv, "tenant,rate\nacme,7\n")
	b := newBenchIn(t, dir, tableRules)
	steps := []string{"tenant,rate\nacme,8", "tenant,rate\nacme,80", "tenant,rate\nacme,800\nbeta,6\n"}
	b.sleep = func(context.Context, time.Duration) bool {
		if len(steps) > 0 {
			write(t, csv, steps[0])
			steps = steps[1:]
		}
		return true
	}
	write(t, csv, "tenant,rate\n")
	b.reload()
	if len(b.applied) != 1 || limitOf(t, b.applied[0], "acme") != 800 || limitOf(t, b.applied[0], "beta") != 6 {
		t.Errorf("%d generations; want that of the complete table alone", len(b.applied))
	}
	changes := 0
	b.sleep = func(context.Context, time.Duration) bool {
		changes++
		write(t, csv, fmt.Sprintf("tenant,rate\nacme,%d\n", changes))
		return true
	}
	write(t, csv, "tenant,rate\n")
	b.reload()
	if len(b.applied) != 1 || limitOf(t, b.applied[0], "acme") != 800 {
		t.Errorf("%d generations of a table that keeps changing; want the former one", len(b.applied))
	}
}

func TestSavedRulesHaveTheirTables(t *testing.T) {
	dir := t.TempDir()
	path, csv := filepath.Join(dir, "rules.conf"), filepath.Join(dir, "plans.csv")
	write(t, path, tableRules)
	write(t, csv, "tenant,rate\nacme,7\n")
	o := Options{Files: Files{Paths: []string{path}}, StateDir: filepath.Join(dir, "state")}
	if set, findings, err := New(o).First(); set == nil {
		t.Fatal(findings, err)
	}
	if err := os.Remove(csv); err != nil {
		t.Fatal(err)
	}
	set, findings, err := New(o).First()
	if set == nil {
		t.Fatal(findings, err)
	}
	if n := limitOf(t, set, "acme"); n != 7 {
		t.Errorf("the limit is %d, want 7", n)
	}
}
