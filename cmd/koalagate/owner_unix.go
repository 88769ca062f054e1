//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner and group of a file that it is to replace: what
// root lays out, the service must still be able to read. Who may not give files
// away becomes the owner, which harms nobody, but the group must stay, since the
// mode may let others in by it alone.
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
