package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// limitedTo is a rule file that lets so many comments of a user through.
func limitedTo(count int) string {
	return strings.Replace(exactRules, "count=25", fmt.Sprintf("count=%d", count), 1)
}

// A change of the rules holds for the next request through a gateway, however
// the file was replaced; a broken file changes nothing.
func TestRulesChangeInTheRunningService(t *testing.T) {
	for _, way := range []struct {
		name string
		// lay puts the first text into place below dir, and returns what
		// --rules is given and how the text is replaced.
		lay func(h *house, dir, text string) (rules string, replace func(text string))
	}{
		{"in place", layInPlace},
		{"by rename", layByRename},
		{"by a ConfigMap's symlink", layConfigMap},
	} {
		t.Run(way.name, func(t *testing.T) {
			h := newHouse(t)
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
			comment(200) // the two that were counted still are: this is the third
			comment(429)

			replace(strings.Replace(limitedTo(100), "[count]", "[cuont]", 1))
			until(t, "the broken file is reported", func() bool { return readyz(t, k).LastError != "" })
			comment(429)
			if got := readyz(t, k).Generation; got != 2 {
				t.Errorf("generation %d after a broken file, want 2 still", got)
			}

			replace(limitedTo(4))
			wantGeneration(t, k, 3)
			comment(200)
			comment(429)
			if said := readyz(t, k).LastError; said != "" {
				t.Errorf("mended, it still reports %q", said)
			}
		})
	}
}

func layInPlace(h *house, dir, text string) (string, func(string)) {
	file := filepath.Join(dir, "rules.conf")
	write := func(text string) { h.file("rules.conf", text) }
	write(text)
	return file, write
}

// layByRename replaces as editors do: a new file takes the old one's name.
func layByRename(h *house, dir, text string) (string, func(string)) {
	file := h.file("rules.conf", text)
	return file, func(text string) {
		if err := os.Rename(h.file("rules.conf.new", text), filepath.Join(dir, "rules.conf")); err != nil {
			h.Fatal(err)
		}
	}
}

// layConfigMap lays files as Kubernetes does: the file is a link through
// `..data`, which is swapped for a link to another folder.
func layConfigMap(h *house, dir, text string) (string, func(string)) {
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

// A word list is read again when it changes, without its rule file changing.
func TestWordListsChangeInTheRunningService(t *testing.T) {
	h := newHouse(t)
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
	// At once: a list that is empty for a moment would be a generation of its own.
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
	until(t, fmt.Sprintf("generation %d", want), func() bool { return readyz(t, k).Generation == want })
}
