//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner and group of the file that it will replace, so that
// the service can still read a file that root formats. A user that may not change
// owners becomes the owner, which is harmless, but the group must stay the same,
// because the mode may grant access through it alone.
func keepOwner(f *os.File, replaced fs.FileInfo) error {
	before, ok := replaced.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if f.Chown(int(before.Uid), int(before.Gid)) == nil {
		return nil
	}
	return f.Chown(-1, int(before.Gid))
}
