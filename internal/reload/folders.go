package reload

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the maximum number of symbolic links in a path, as in Linux.
const maxLinks = 40

// folders returns the folders in which a change can give path other content: the
// folder of each symbolic link on the way (a ConfigMap swaps one), the folder of the
// file itself, and path itself if it is a folder. If path does not exist, the last
// one is the folder in which it would have to appear.
func folders(path string) []string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil // the working directory was removed: nothing can be watched
	}
	var found []string
	at, rest, links := "/", split(absolute), 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil || links == maxLinks {
			return append(found, at)
		}
		rest = rest[1:]
		if info.Mode().Type() != fs.ModeSymlink {
			if len(rest) == 0 {
				found = append(found, at)
			}
			at = next
			continue
		}
		found = append(found, at)
		target, err := os.Readlink(next)
		if err != nil {
			return found
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest, links = append(split(target), rest...), links+1
	}
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		found = append(found, at)
	}
	return found
}

// split returns the elements of a path.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}
