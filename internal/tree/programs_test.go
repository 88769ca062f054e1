package tree

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every package with tests is run by `make test`, and by one command of it only, apart from
// the stores and the admin API, whose tests are divided by name.
func TestMakeTestRunsEveryPackage(t *testing.T) {
	command := exec.Command("make", "--no-print-directory", "-n", "test")
	// Also if this test runs by `make test ONLY=…`.
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ONLY=") || strings.HasPrefix(v, "MAKE") })
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	commands := regexp.MustCompile(`\\\n`).ReplaceAllString(string(out), "")
	times := map[string]int{}
	for _, word := range strings.Fields(commands) {
		word = strings.TrimSuffix(word, ";")
		if name, ok := strings.CutPrefix(word, "github.com/koalagate/koalagate"); ok {
			times[strings.TrimPrefix(name, "/")]++
		}
	}
	for _, m := range regexp.MustCompile(`for module in ([^;]*);`).FindAllStringSubmatch(commands, -1) {
		for _, name := range strings.Fields(m[1]) {
			times[name]++
		}
	}
	folders := map[string]bool{}
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			folders[strings.TrimPrefix(path.Dir(filepath.ToSlash(name)), ".")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range folders {
		want := 1
		if strings.HasPrefix(folder, "internal/store") || folder == "internal/adminapi" {
			want = 2
		}
		if times[folder] != want {
			t.Errorf("%q: make test runs its tests %d times; want %d", folder, times[folder], want)
		}
	}
}
