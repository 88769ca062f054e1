package access_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/koalagate/koalagate/internal/access"
)

// Commands find the token of the instance at their address, and no other.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		listens, asks string
		found         bool
	}{
		{"127.0.0.1:9982", "127.0.0.1:9982", true},
		{"127.0.0.1:9982", "localhost:9982", true},
		{"127.0.0.1:9982", ":9982", true},
		{"[::]:9982", "127.0.0.1:9982", true},
		{"[::]:9982", "koala.internal:9982", true},
		{"[::1]:9982", "localhost:9982", true},
		{"127.0.0.1:9982", "127.0.0.1:9983", false},
		{"192.0.2.1:9982", "127.0.0.1:9982", false},
		{"unix:/run/koalagate/admin", "unix:/run/koalagate/admin", true},
		{"unix:/run/koalagate/admin", "unix:/run/koalagate/other", false},
	} {
		dir := t.TempDir()
		made, err := access.MakeFile(dir, c.listens)
		if err != nil {
			t.Fatal(err)
		}
		token, found := access.Find([]string{filepath.Join(dir, "missing"), dir}, c.asks)
		if found != c.found || found && token != made.Token {
			t.Errorf("%s for %s: %v", c.listens, c.asks, found)
		}
		if info, err := os.Stat(made.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", made.Path, info, err)
		}
	}
}

// The file ends with its instance, unless a later one has the address.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	first, err := access.MakeFile(dir, "127.0.0.1:9982")
	if err != nil {
		t.Fatal(err)
	}
	second, err := access.MakeFile(dir, "127.0.0.1:9982")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Remove(); err != nil {
		t.Error(err)
	}
	if token, err := access.ReadFile(second.Path); err != nil || token != second.Token || token == first.Token {
		t.Errorf("%q, %v", token, err)
	}
	if err := second.Remove(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A folder for tokens is one that no other user can use.
func TestRuntimeDir(t *testing.T) {
	base := t.TempDir()
	dir, err := access.RuntimeDir([]string{"XDG_RUNTIME_DIR=" + base})
	if err != nil || dir != filepath.Join(base, "koalagate") {
		t.Fatalf("%s, %v", dir, err)
	}
	if again, err := access.RuntimeDir([]string{"XDG_RUNTIME_DIR=" + base}); err != nil || again != dir {
		t.Errorf("%s, %v", again, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := access.RuntimeDir([]string{"XDG_RUNTIME_DIR=" + base}); err == nil {
		t.Error("a folder that others can read is accepted")
	}
	other := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(other, "koalagate")); err != nil {
		t.Fatal(err)
	}
	if _, err := access.RuntimeDir([]string{"XDG_RUNTIME_DIR=" + other}); err == nil {
		t.Error("a symbolic link is accepted")
	}
	if dirs := access.Dirs([]string{"XDG_RUNTIME_DIR=" + other}, "/state"); len(dirs) != 1 || dirs[0] != "/state" {
		t.Errorf("%v", dirs)
	}
}
