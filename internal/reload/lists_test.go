package reload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/koalagate/koalagate/rules"
)

// TestUnreadableWordListIsAFindingAtItsPath replaces a word list with all kinds of
// other files. The position of the finding is the path in [dicts], and no read
// blocks or runs forever.
func TestUnreadableWordListIsAFindingAtItsPath(t *testing.T) {
	text := "[dicts]\nvip : vip.dat\n" + strings.Replace(ruleText(1), "act=a1", "act @ vip", 1)
	for _, c := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"missing", func(string) error { return nil }, "no such file"},
		{"a FIFO, which never ends", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "not a regular file"},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		{"an endless device", func(path string) error { return os.Symlink("/dev/zero", path) }, "not a regular file"},
		{"a link to itself", func(path string) error { return os.Symlink(path, path) }, "too many levels"},
		{"a file that no user can read", func(path string) error { return os.Symlink("/proc/self/mem", path) }, "input/output error"},
		{"larger than the limit", func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, maxDict+1)
		}, fmt.Sprintf("want at most %d", maxDict)},
		{"a hole of a gigabyte", func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<30)
		}, "vip.dat:1: the line is longer"},
		{"UTF-16", func(path string) error { return os.WriteFile(path, []byte("\xff\xfe7\x00\n\x00"), 0o600) }, "vip.dat:1: the file is UTF-16"},
		{"GBK", func(path string) error { return os.WriteFile(path, []byte("7\n\xd1\xcf\n"), 0o600) }, "vip.dat:2: the entry is not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "rules.conf"), text)
			if err := c.make(filepath.Join(dir, "vip.dat")); err != nil {
				t.Fatal(err)
			}
			set, findings, err := Files{Paths: []string{filepath.Join(dir, "rules.conf")}}.Load()
			if err != nil || set != nil || len(findings) != 1 {
				t.Fatalf("%v, %v, %v; want one finding", set, findings, err)
			}
			f := findings[0]
			if f.Position.Line != 2 || f.Position.Column != 7 || !strings.Contains(f.Message, c.want) {
				t.Errorf("got %v; want %q at 2:7", f, c.want)
			}
		})
	}
}

// TestFileChangedDuringReadIsRejected writes to a word list when its first byte
// has been read.
func TestFileChangedDuringReadIsRejected(t *testing.T) {
	for name, rewrite := range map[string]func(path string) error{
		"appended to": func(path string) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("8\n")
			return errors.Join(err, f.Close())
		},
		"truncated": func(path string) error { return os.Truncate(path, 3) },
		"rewritten": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("9\n", 9999)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vip.dat")
			write(t, path, strings.Repeat("7\n", 10_000))
			r := newReader(nil)
			err := r.file(t.Context(), path, maxDict, func(text io.Reader) error {
				if _, err := io.ReadFull(text, make([]byte, 1)); err != nil {
					return err
				}
				if err := rewrite(path); err != nil {
					return err
				}
				_, err := rules.ParseDict(path, text)
				return err
			})
			if !errors.Is(err, errChanging) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v; want an error that %s changed", err, path)
			}
			if !r.changed() {
				t.Error("changed is false; the file would not be read again")
			}
		})
	}
}

func TestOneFileUnderTwoNamesIsParsedOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "vip.dat"), "7\n")
	write(t, filepath.Join(dir, "rules.conf"), "[dicts]\none : vip.dat\ntwo : ./vip.dat\n"+strings.Replace(ruleText(1), "act=a1", "act @ one; x @ two", 1))
	set, findings, err := Files{Paths: []string{filepath.Join(dir, "rules.conf")}}.Load()
	if err != nil || set == nil {
		t.Fatal(findings, err)
	}
	if set.Dicts["one"] != set.Dicts["two"] {
		t.Error("the file was parsed twice")
	}
}

// A list with several names has one content in a set, even if its file changes
// before the second name is read, back to its content in the previous set: that
// change would not be detected.
func TestListIsReadOnceForAllItsNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vip.dat")
	write(t, path, "7\n")
	before := newReader(nil)
	former, err := before.list(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	aside := path + ".aside"
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	write(t, path, "7\n8\n")
	if !before.changed() {
		t.Fatal("the change of the list is not detected")
	}
	r := newReader(before)
	first, err := r.list(t.Context(), path)
	if err != nil || first == former {
		t.Fatalf("the changed list: %v, or the list of the previous set", err)
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	if second, err := r.list(t.Context(), path); err != nil || second != first || !r.changed() {
		t.Errorf("for another name: %v, the same list %v, change detected %v; want both", err, second == first, r.changed())
	}
}
