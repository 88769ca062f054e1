//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestReplacedFilesKeepTheirGroup replaces a file whose group differs from that of
// new files: any group for root, another of its groups for other users.
func TestReplacedFilesKeepTheirGroup(t *testing.T) {
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		groups = []int{4242}
	}
	path := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(path, []byte("before"), 0o640); err != nil {
		t.Fatal(err)
	}
	want := os.Getegid() // for a user in a single group
	if at := slices.IndexFunc(groups, func(g int) bool { return g != want }); at >= 0 {
		want = groups[at]
	}
	if err := os.Chown(path, -1, want); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("after")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t); int(got.Gid) != want || int(got.Uid) != os.Geteuid() || info.Mode() != 0o640 {
		t.Errorf("uid %d, gid %d, %v; want %d, %d, -rw-r-----", got.Uid, got.Gid, info.Mode(), os.Geteuid(), want)
	}
}
