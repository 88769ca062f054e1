package operators_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// A change of the rules applies to the next request through a gateway, however the
// file was replaced; an invalid file changes nothing.
func TestRuleChangesAtRunTime(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name string
		// lay writes the first text below dir, and returns the value of --rules and
		// a function that replaces the text.
		lay func(h *rig.Fixture, dir, text string) (rules string, replace func(text string))
	}{
		{"in place", layInPlace},
		{"by rename", layByRename},
		{"by a ConfigMap's symlink", layConfigMap},
	} {
		t.Run(way.name, func(t *testing.T) {
			h := rig.NewFixture(t)
			rules, replace := way.lay(h, h.Dir, rig.LimitedTo(2))
			k := h.Koalagate("--rules", rules)
			envoy := h.Envoy(h.App(), k)
			comment := func(want int) {
				t.Helper()
				rig.WantStatus(t, want, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
			}

			comment(200)
			comment(200)
			comment(429)

			replace(rig.LimitedTo(3))
			wantGeneration(t, k, 2)
			comment(200) // the two earlier hits still count: this is the third
			comment(429)

			replace(strings.Replace(rig.LimitedTo(100), "[count]", "[cuont]", 1))
			rig.WaitUntil(t, "the broken file is reported", func() bool { return rig.Readyz(t, k).LastError != "" })
			comment(429)
			if got := rig.Readyz(t, k).Generation; got != 2 {
				t.Errorf("generation %d after an invalid file, want 2", got)
			}

			replace(rig.LimitedTo(4))
			wantGeneration(t, k, 3)
			comment(200)
			comment(429)
			if said := rig.Readyz(t, k).LastError; said != "" {
				t.Errorf("the fixed file still reports %q", said)
			}
		})
	}
}

func layInPlace(h *rig.Fixture, dir, text string) (string, func(string)) {
	file := filepath.Join(dir, "rules.conf")
	write := func(text string) { h.File("rules.conf", text) }
	write(text)
	return file, write
}

// layByRename replaces the file by renaming a new one, as editors do.
func layByRename(h *rig.Fixture, dir, text string) (string, func(string)) {
	file := h.File("rules.conf", text)
	return file, func(text string) {
		if err := os.Rename(h.File("rules.conf.new", text), filepath.Join(dir, "rules.conf")); err != nil {
			h.Fatal(err)
		}
	}
}

// layConfigMap writes files as Kubernetes does: the file is a link through `..data`,
// which is replaced with a link to another folder.
func layConfigMap(h *rig.Fixture, dir, text string) (string, func(string)) {
	version := 0
	replace := func(text string) {
		version++
		folder := fmt.Sprintf("..version-%d", version)
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			h.Fatal(err)
		}
		h.File(folder+"/rules.conf", text)
		if err := os.Symlink(folder, filepath.Join(dir, "..data_tmp")); err != nil {
			h.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			h.Fatal(err)
		}
	}
	replace(text)
	file := filepath.Join(dir, "rules.conf")
	if err := os.Symlink("..data/rules.conf", file); err != nil {
		h.Fatal(err)
	}
	return file, replace
}

// A word list is reloaded when it changes, even if its rule file does not change.
func TestWordListChangesAtRunTime(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.File("blocked.dat", "mallory\n")
	rules := h.File("rules.conf", `
[dicts]
blocked : blocked.dat
[params]
uid : header X-User-Id
[rules]
rule : [direct] [uid @ blocked] [] [result=2; return=101]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)
	k := h.Koalagate("--rules", rules)
	nginx := h.Nginx(h.App(), k)
	rig.WantStatus(t, 403, "GET", nginx.URL+"/", "X-User-Id: mallory")
	rig.WantStatus(t, 200, "GET", nginx.URL+"/", "X-User-Id: trudy")
	// Atomically: a list that is empty for a moment would be a separate generation.
	if err := os.Rename(h.File("blocked.new", "mallory\ntrudy\n"), filepath.Join(h.Dir, "blocked.dat")); err != nil {
		t.Fatal(err)
	}
	wantGeneration(t, k, 2)
	rig.WantStatus(t, 403, "GET", nginx.URL+"/", "X-User-Id: trudy")
}

func wantGeneration(t *testing.T, k *e2e.Koalagate, want int) {
	t.Helper()
	rig.WaitUntil(t, fmt.Sprintf("generation %d", want), func() bool { return rig.Readyz(t, k).Generation == want })
}
