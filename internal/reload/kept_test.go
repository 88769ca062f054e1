package reload

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// keeping is a service with a rule file, a word list and a state folder.
type keeping struct {
	dir   string
	log   *bytes.Buffer
	start time.Time
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	k := &keeping{dir: t.TempDir(), log: new(bytes.Buffer), start: time.Unix(1780286400, 0)}
	k.put(t, "rules.conf", listedRules(1))
	k.put(t, "friends.txt", "ann\nbob\n")
	return k
}

// listedRules returns a rule file with a word list.
func listedRules(number int) string {
	return strings.Replace(ruleText(number), "[rules]", "[dicts]\nfriends : friends.txt\n[rules]\nrule : [direct] [uid @ friends] [] [result=1; return=900]", 1)
}

func (k *keeping) path(name string) string { return filepath.Join(k.dir, name) }

func (k *keeping) put(t *testing.T, name, text string) {
	t.Helper()
	write(t, k.path(name), text)
}

// begin starts the service.
func (k *keeping) begin() (*Reloader, *rules.Set, rules.Findings, error) {
	r := New(Options{
		Files:    Files{Paths: []string{k.path("rules.conf")}},
		StateDir: k.path("state"),
		Logger:   slog.New(slog.NewTextHandler(k.log, nil)),
		Clock:    func() time.Time { return k.start },
	})
	r.sleep = func(context.Context, time.Duration) bool { return true }
	set, findings, err := r.First()
	return r, set, findings, err
}

// good starts the service and fails the test on an error.
func (k *keeping) good(t *testing.T) (*Reloader, *rules.Set) {
	t.Helper()
	r, set, findings, err := k.begin()
	if err != nil || findings.HasErrors() || set == nil {
		t.Fatalf("%v, %v; want rules", findings, err)
	}
	return r, set
}

// A start with invalid files uses the last active rules, and reports it; fixed
// files become active as usual.
func TestStartWithSavedRules(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *keeping){
		"an invalid rule file": func(t *testing.T, k *keeping) { k.put(t, "rules.conf", badText) },
		"no rule file": func(t *testing.T, k *keeping) {
			if err := os.Remove(k.path("rules.conf")); err != nil {
				t.Fatal(err)
			}
		},
		"no word list": func(t *testing.T, k *keeping) {
			if err := os.Remove(k.path("friends.txt")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeping(t)
			_, before := k.good(t)
			spoil(t, k)
			r, after := k.good(t)
			state := r.State()
			if after.Hash != before.Hash || !state.Restored || !state.SavedAt.Equal(k.start) || state.Generation != 1 || state.LastError == "" {
				t.Fatalf("hash %s, state %+v; want the previous rules (%s), restored, with the reason", after.Hash, state, before.Hash)
			}
			if !strings.Contains(k.log.String(), "level=ERROR") || !strings.Contains(k.log.String(), "starting with the last active rules") {
				t.Errorf("the log has no error about it:\n%s", k.log)
			}
			var matches rules.Matches
			after.Match(rules.MakeParams(map[string]string{"uid": "bob"}), &matches)
			if len(matches.List) != 1 || matches.List[0].Rule.Return != 900 {
				t.Errorf("the previous word list is not active: %+v", matches.List)
			}
			k.put(t, "friends.txt", "ann\nbob\n")
			k.put(t, "rules.conf", listedRules(2))
			var applied *rules.Set
			r.load(context.Background(), func(s *rules.Set) { applied = s }, false)
			if state := r.State(); applied == nil || state.Restored || state.LastError != "" || state.Generation != 2 {
				t.Errorf("with fixed files: %+v", state)
			}
			k.put(t, "rules.conf", badText)
			if _, again := k.good(t); again.Hash != applied.Hash {
				t.Error("the fixed rules were not saved")
			}
		})
	}
}

// Files that match the saved rules again only clear the error.
func TestFilesThatMatchSavedRulesClearTheError(t *testing.T) {
	k := newKeeping(t)
	k.good(t)
	k.put(t, "rules.conf", badText)
	r, _ := k.good(t)
	k.put(t, "rules.conf", listedRules(1))
	r.load(context.Background(), func(*rules.Set) { t.Error("no new rules should become active") }, false)
	if state := r.State(); state.Restored || state.LastError != "" || state.Generation != 1 {
		t.Errorf("state %+v; want no error", state)
	}
}

// Saved rules that were modified are not used: the start fails as without them.
func TestDamagedSavedRulesAreNotUsed(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"cut":     func(b []byte) []byte { return b[:len(b)-2] },
		"changed": func(b []byte) []byte { b[len(b)/2]++; return b },
		"longer":  func(b []byte) []byte { return append(b, "\n# more\n"...) },
	} {
		for _, file := range []string{"000.conf", "000.list", manifestFile} {
			if file == manifestFile && (name == "changed" || name == "longer") {
				continue // its time may change, and JSON may contain spaces
			}
			k := newKeeping(t)
			k.good(t)
			found, err := filepath.Glob(k.path("state/" + setPrefix + "*/" + file))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v; want one %s", found, err, file)
			}
			text, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			write(t, found[0], string(damage(text)))
			k.put(t, "rules.conf", badText)
			if _, set, findings, _ := k.begin(); set != nil || !findings.HasErrors() {
				t.Errorf("%s %s: it starts with modified rules", file, name)
			}
			if !strings.Contains(k.log.String(), "state_dir") {
				t.Errorf("%s %s: the log does not explain why state_dir is not used:\n%s", file, name, k.log)
			}
		}
	}
}

func TestSavedRulesOfOtherFilesAreNotUsed(t *testing.T) {
	k := newKeeping(t)
	k.good(t)
	k.put(t, "other.conf", badText)
	r := New(Options{Files: Files{Paths: []string{k.path("other.conf")}}, StateDir: k.path("state"), Logger: slog.New(slog.DiscardHandler)})
	if set, findings, err := r.First(); set != nil || err != nil || !findings.HasErrors() {
		t.Errorf("%v, %v, %v; want only the findings", set, findings, err)
	}
}

// The folder contains one set at a time, and unchanged word lists are not copied
// again.
func TestOneSetIsSaved(t *testing.T) {
	k := newKeeping(t)
	if err := os.MkdirAll(k.path("state/"+setPrefix+"abandoned"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, _ := k.good(t)
	list := func() os.FileInfo {
		found, err := filepath.Glob(k.path("state/" + setPrefix + "*/000.list"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v; want one set", found, err)
		}
		info, err := os.Stat(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := list()
	k.put(t, "rules.conf", listedRules(2))
	r.load(context.Background(), func(*rules.Set) {}, false)
	if !os.SameFile(first, list()) {
		t.Error("an unchanged word list was copied again")
	}
	folders, err := filepath.Glob(k.path("state/" + setPrefix + "*"))
	if err != nil || len(folders) != 1 {
		t.Errorf("%v, %v; want one folder", folders, err)
	}
}

// A folder that is not writable causes a warning: the rules become active all the
// same.
func TestUnwritableStateDirIsAWarning(t *testing.T) {
	k := newKeeping(t)
	k.put(t, "state", "a file")
	k.good(t)
	if !strings.Contains(k.log.String(), "cannot save the active rules in state_dir") {
		t.Errorf("the log does not mention it:\n%s", k.log)
	}
}

func TestWithoutStateDirNothingIsSaved(t *testing.T) {
	b := newBench(t, ruleText(1))
	entries, err := os.ReadDir(b.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v; want only the rule file", entries, err)
	}
}

// Damage to saved rules is detected at the next successful start, not at the one
// that needs them.
func TestDamagedSavedRulesAreSavedAgain(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a missing rule file":          func(dir string) error { return os.Remove(filepath.Join(dir, "000.conf")) },
		"a truncated rule file":        func(dir string) error { return os.Truncate(filepath.Join(dir, "000.conf"), 10) },
		"a missing word list":          func(dir string) error { return os.Remove(filepath.Join(dir, "000.list")) },
		"a truncated word list":        func(dir string) error { return os.Truncate(filepath.Join(dir, "000.list"), 4) },
		"a missing folder":             os.RemoveAll,
		"a manifest without its lists": func(dir string) error { return cutLists(filepath.Join(dir, manifestFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeping(t)
			_, before := k.good(t)
			dirs, err := filepath.Glob(filepath.Join(k.path("state"), setPrefix+"*"))
			if err != nil || len(dirs) != 1 {
				t.Fatalf("%v, %v; want one folder", dirs, err)
			}
			if err := damage(dirs[0]); err != nil {
				t.Fatal(err)
			}
			k.good(t)
			k.put(t, "rules.conf", badText)
			if r, after := k.good(t); after.Hash != before.Hash || !r.State().Restored {
				t.Errorf("state %+v; want the previous rules, restored", r.State())
			}
		})
	}
}

func cutLists(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, _, _ := strings.Cut(string(text), `  "lists"`)
	return os.WriteFile(path, []byte(begin+`  "lists": []}`), 0o600)
}

// Packages and images give all their files the same time, so a word list can
// change without changing time and size.
func TestChangedWordListOfSameTimeAndSizeIsSavedAgain(t *testing.T) {
	k := newKeeping(t)
	place := func(words string) {
		k.put(t, "friends.txt", words)
		if err := os.Chtimes(k.path("friends.txt"), k.start, k.start); err != nil {
			t.Fatal(err)
		}
	}
	place("ann\nbob\n")
	k.good(t)
	place("ann\neve\n")
	_, before := k.good(t)
	k.put(t, "rules.conf", badText)
	if r, after := k.good(t); after.Hash != before.Hash || !r.State().Restored {
		t.Errorf("state %+v; want the newer rules, restored", r.State())
	}
}
