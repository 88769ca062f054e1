package reload

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+"~"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func readAll(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// realTempDir returns the path of a temporary folder without symbolic links.
func realTempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestIrregularOrLargeFilesAreRejected(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	write(t, large, "")
	if err := os.Truncate(large, maxSummed+1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"a FIFO", fifo, "not a regular file"},
		{"a folder", dir, "not a regular file"},
		{"a device", "/dev/zero", "not a regular file"},
		{"nothing", filepath.Join(dir, "missing"), "no such file"},
		{"a file above the limit", large, "1048577 bytes; want at most 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReader(nil)
			err := r.file(t.Context(), c.path, maxSummed, readAll)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("got %v; want %s and the path", err, c.want)
			}
			if r.changed() {
				t.Error("changed is true at once; the file would be read again and again")
			}
		})
	}
}

func TestReaderDetectsChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   bool
	}{
		{"nothing", func(*testing.T, string) {}, false},
		{"an unrelated file", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "notes"), "x") }, false},
		{"a hidden file", func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".#b.conf"), "x") }, false},
		{"longer", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "b.conf"), "longer") }, true},
		{"of the same length and time", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "b.conf")
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, "B")
			if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"removed", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "b.conf")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a new rule file", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c.conf"), "c") }, true},
		{"a file that was missing", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "missing"), "c") }, true},
		{"a swapped link", func(t *testing.T, dir string) { link(t, "two", filepath.Join(dir, "now")) }, true},
		{"a large file, touched", func(t *testing.T, dir string) {
			if err := os.Chtimes(filepath.Join(dir, "large"), time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "b.conf"), "b")
			write(t, filepath.Join(dir, "a.conf"), "a")
			write(t, filepath.Join(mkdir(t, filepath.Join(dir, "one")), "x"), "1")
			write(t, filepath.Join(mkdir(t, filepath.Join(dir, "two")), "x"), "2")
			write(t, filepath.Join(dir, "large"), strings.Repeat("x", maxSummed+1))
			link(t, "one", filepath.Join(dir, "now"))
			r := newReader(nil)
			names, err := r.folder(dir)
			if want := []string{filepath.Join(dir, "a.conf"), filepath.Join(dir, "b.conf")}; err != nil || !slices.Equal(names, want) {
				t.Fatalf("the folder contains %v, %v; want %v", names, err, want)
			}
			for _, path := range append(names, filepath.Join(dir, "now", "x"), filepath.Join(dir, "large")) {
				if err := r.file(t.Context(), path, maxDict, readAll); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.file(t.Context(), filepath.Join(dir, "missing"), maxDict, readAll); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			c.change(t, dir)
			if got := r.changed(); got != c.want {
				t.Errorf("changed is %v; want %v", got, c.want)
			}
		})
	}
}

// TestSettledFilesAreReadOnce reads files that changed last long ago: they are not read again until
// a change shows, whatever the program that changes them sets.
func TestSettledFilesAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.conf")
	write(t, path, "a")
	r := newReader(nil)
	if _, err := r.ruleText(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if r.seen[path].settled {
		t.Error("a file that has just changed is settled: a second change at the same time would not be seen")
	}
	time.Sleep(granularity + 10*time.Millisecond) // no program can set the time of a change
	if r.changed() || !r.seen[path].settled {
		t.Fatalf("after %v the file is not settled", granularity)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "b")
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !r.changed() {
			t.Error("a change of a settled file that keeps its size and time is not seen")
		}
	}
	if text, err := newReader(r).ruleText(t.Context(), path); string(text) != "b" {
		t.Errorf("the changed file has the text %q, %v", text, err)
	}
}

// TestTouchedFilesAreTheSame gives a settled file another mode and another name: its content stays
// in use.
func TestTouchedFilesAreTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.conf")
	write(t, path, "a")
	r := newReader(nil)
	if _, err := r.ruleText(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s := r.seen[path]
	s.settled = true
	r.seen[path] = s
	if err := errors.Join(os.Chmod(path, 0o640), os.Link(path, path+".linked")); err != nil {
		t.Fatal(err)
	}
	if r.changed() || r.rules[path] == nil {
		t.Error("a file with another mode counts as changed")
	}
}

func TestFoldersThatAPathDependsOn(t *testing.T) {
	root := realTempDir(t)
	at := func(path string) string { return filepath.Join(root, path) }
	write(t, filepath.Join(mkdir(t, at("plain")), "rules.conf"), "")
	write(t, filepath.Join(mkdir(t, at("map/..1")), "rules.conf"), "")
	link(t, "..1", at("map/..data"))
	link(t, "..data/rules.conf", at("map/rules.conf"))
	link(t, at("plain"), at("absolute"))
	link(t, "loop", at("loop"))
	for _, c := range []struct {
		name, path string
		want       []string
	}{
		{"a file", "plain/rules.conf", []string{"plain"}},
		{"a folder and its parent", "plain", []string{".", "plain"}},
		{"a ConfigMap", "map/rules.conf", []string{"map", "map", "map/..1"}},
		{"a file in a linked folder", "absolute/rules.conf", []string{".", "plain"}},
		{"a missing file", "plain/none.conf", []string{"plain"}},
		{"a missing folder", "none/none.conf", []string{"."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			for _, w := range c.want {
				want = append(want, at(w))
			}
			if got := folders(at(c.path)); !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
	if got := folders(at("loop")); len(got) == 0 || len(got) > maxLinks+1 {
		t.Errorf("a link to itself gives %d folders", len(got))
	}
}
