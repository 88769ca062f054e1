//go:build unix

package access

import (
	"os"
	"syscall"
)

// isOwn reports whether the user of the process owns a file.
func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
