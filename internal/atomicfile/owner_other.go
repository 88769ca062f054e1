//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

// keepOwner does nothing on systems without Unix owners and groups.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
