//go:build !linux

package reload

import (
	"io/fs"
	"time"
)

// changeTime returns the zero time: files are compared by their content.
func changeTime(fs.FileInfo) time.Time { return time.Time{} }
