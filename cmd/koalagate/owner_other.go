//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// keepOwner does nothing on systems without Unix owners and groups.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
