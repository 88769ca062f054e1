package reload

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs f as a user without access to other users' files, even if root
// runs the tests. For any other user the mode of a file is sufficient.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		const nobody = 65534
		runtime.LockOSThread() // the user belongs to the thread
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setfsuid(0); err != nil {
				t.Fatal(err)
			}
		}()
	}
	f()
}

// A file that cannot be opened is stable. If it counted as unstable, it would
// never be rejected and reported.
func TestUnopenableFileIsRejected(t *testing.T) {
	large := append([]byte(ruleText(1)), bytes.Repeat([]byte("# as large as real ones\n"), maxSummed/20)...)
	for _, c := range []struct {
		name    string
		replace func(t *testing.T, path string)
		want    string
	}{
		{"a small file without permission", func(t *testing.T, path string) {
			writeSecret(t, path, []byte(ruleText(1)))
		}, "permission denied"},
		{"a large file without permission", func(t *testing.T, path string) {
			writeSecret(t, path, large)
		}, "permission denied"},
		{"a socket", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}, "no such device or address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			// The parent folder is accessible only to its owner.
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			b := newBenchIn(t, dir, ruleText(1))
			if err := os.Remove(b.path()); err != nil {
				t.Fatal(err)
			}
			c.replace(t, b.path())
			asNobody(t, func() { b.load(context.Background(), nil, false) })
			if s := b.State(); !strings.Contains(s.LastError, c.want) || strings.Contains(b.log.String(), "keep changing") {
				t.Errorf("last error %q; want %q:\n%s", s.LastError, c.want, b.log)
			}
		})
	}
}

// writeSecret replaces path with a file that no user may read.
func writeSecret(t *testing.T, path string, text []byte) {
	t.Helper()
	next := filepath.Join(filepath.Dir(path), "next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(next, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}
