package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// limitedTo returns a rule file with a limit of count comments per user.
func limitedTo(count int) string {
	return strings.Replace(exactRules, "count=25", fmt.Sprintf("count=%d", count), 1)
}

// A change of the rules applies to the next request through a gateway, however the
// file was replaced; an invalid file changes nothing.
func TestRuleChangesAtRunTime(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name string
		// lay writes the first text below dir, and returns the value of --rules and
		// a function that replaces the text.
		lay func(h *fixture, dir, text string) (rules string, replace func(text string))
	}{
		{"in place", layInPlace},
		{"by rename", layByRename},
		{"by a ConfigMap's symlink", layConfigMap},
	} {
		t.Run(way.name, func(t *testing.T) {
			h := newFixture(t)
			rules, replace := way.lay(h, h.dir, limitedTo(2))
			k := h.koalagate("--rules", rules)
			envoy := h.envoy(h.app(), k)
			comment := func(want int) {
				t.Helper()
				wantStatus(t, want, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
			}

			comment(200)
			comment(200)
			comment(429)

			replace(limitedTo(3))
			wantGeneration(t, k, 2)
			comment(200) // the two earlier hits still count: this is the third
			comment(429)

			replace(strings.Replace(limitedTo(100), "[count]", "[cuont]", 1))
			waitUntil(t, "the broken file is reported", func() bool { return readyz(t, k).LastError != "" })
			comment(429)
			if got := readyz(t, k).Generation; got != 2 {
				t.Errorf("generation %d after an invalid file, want 2", got)
			}

			replace(limitedTo(4))
			wantGeneration(t, k, 3)
			comment(200)
			comment(429)
			if said := readyz(t, k).LastError; said != "" {
				t.Errorf("the fixed file still reports %q", said)
			}
		})
	}
}

func layInPlace(h *fixture, dir, text string) (string, func(string)) {
	file := filepath.Join(dir, "rules.conf")
	write := func(text string) { h.file("rules.conf", text) }
	write(text)
	return file, write
}

// layByRename replaces the file by renaming a new one, as editors do.
func layByRename(h *fixture, dir, text string) (string, func(string)) {
	file := h.file("rules.conf", text)
	return file, func(text string) {
		if err := os.Rename(h.file("rules.conf.new", text), filepath.Join(dir, "rules.conf")); err != nil {
			h.Fatal(err)
		}
	}
}

// layConfigMap writes files as Kubernetes does: the file is a link through `..data`,
// which is replaced with a link to another folder.
func layConfigMap(h *fixture, dir, text string) (string, func(string)) {
	version := 0
	replace := func(text string) {
		version++
		folder := fmt.Sprintf("..version-%d", version)
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			h.Fatal(err)
		}
		h.file(folder+"/rules.conf", text)
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
	h := newFixture(t)
	h.file("blocked.dat", "mallory\n")
	rules := h.file("rules.conf", `
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
	k := h.koalagate("--rules", rules)
	nginx := h.nginx(h.app(), k)
	wantStatus(t, 403, "GET", nginx.URL+"/", "X-User-Id: mallory")
	wantStatus(t, 200, "GET", nginx.URL+"/", "X-User-Id: trudy")
	// Atomically: a list that is empty for a moment would be a separate generation.
	if err := os.Rename(h.file("blocked.new", "mallory\ntrudy\n"), filepath.Join(h.dir, "blocked.dat")); err != nil {
		t.Fatal(err)
	}
	wantGeneration(t, k, 2)
	wantStatus(t, 403, "GET", nginx.URL+"/", "X-User-Id: trudy")
}

func readyz(t *testing.T, k *e2e.Koalagate) e2e.Readiness {
	t.Helper()
	return must(k.Readyz())(t)
}

func wantGeneration(t *testing.T, k *e2e.Koalagate, want int) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("generation %d", want), func() bool { return readyz(t, k).Generation == want })
}
