package reload

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns when a file, or what the file system records about it, changed last; the zero
// time if that is not known. Unlike the time of modification, no program can set it.
func changeTime(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return time.Time{}
}
