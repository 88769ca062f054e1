package apikey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/internal/atomicfile"
	"github.com/koalagate/koalagate/internal/delay"
)

const (
	// maxTable is the maximum size of a table, in bytes, as in [tables].
	maxTable = 1 << 30
	// LockTime is the time for which Edit waits for other changes of the table.
	LockTime = 5 * time.Minute
	// The pause between two attempts to lock a table is random, up to a quarter of the time
	// waited, and within these bounds: a thousand commands at once leave the processors to the
	// one that has the lock.
	minPause = 20 * time.Millisecond
	maxPause = 2 * time.Second
)

// ReadFile reads the file of a table.
func ReadFile(path string) ([]byte, error) {
	f, err := open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

// Edit replaces the file of a table by what change makes of its content, and nothing if change
// fails. The new content is on disk when it returns. Mode and owner stay, symbolic links are
// followed, and no other Edit of the file, of any process, runs meanwhile: it waits for them, at
// most LockTime.
func Edit(ctx context.Context, path string, change func(text []byte) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, LockTime)
	defer cancel()
	f, err := lock(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close() // unlocks
	before, err := f.Stat()
	if err != nil {
		return err
	}
	text, err := read(f)
	if err != nil {
		return err
	}
	next, err := change(text)
	if err != nil {
		return err
	}
	// Editors lock nothing.
	now, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) || before.Size() != now.Size():
		return fmt.Errorf("%s was changed meanwhile by another program; nothing was changed here: try again", path)
	}
	return atomicfile.Replace(path, next)
}

// lock opens a file that may be changed, with a lock that ends when the file is closed. The lock
// is on the file itself, which the holder replaces: so a lock of a file that was replaced is
// worthless.
func lock(ctx context.Context, path string) (*os.File, error) {
	began := time.Now()
	for {
		f, err := openForChange(path)
		if err != nil {
			return nil, err
		}
		locked := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if locked == nil {
			mine, err := f.Stat()
			now, errNow := os.Stat(path)
			if err == nil && errNow == nil && os.SameFile(mine, now) {
				return f, nil
			}
		}
		f.Close()
		if locked != nil && !errors.Is(locked, syscall.EWOULDBLOCK) && !errors.Is(locked, syscall.EINTR) {
			return nil, fmt.Errorf("%s cannot be locked: %w; keep it on a file system with locks", path, locked)
		}
		pause := min(max(minPause, time.Since(began)/4), maxPause)
		if !delay.Wait(ctx, rand.N(pause)) { //nolint:gosec // a pause is no secret
			return nil, fmt.Errorf("%s is locked by other changes: %w; try again", path, context.Cause(ctx))
		}
	}
}

// openForChange opens a file that may be replaced.
func openForChange(path string) (*os.File, error) {
	f, err := open(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode().Perm()&0o222 == 0: // root may write to it nevertheless
		err = fmt.Errorf("%s is read-only (mode %04o); let its owner write to it: chmod u+w", path, info.Mode().Perm())
	case links(info) > 1:
		err = fmt.Errorf("%s has %d hard links, which replacing it would separate; use a symbolic link instead", path, links(info))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// links returns the number of names of a file.
func links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // its type depends on the system
	}
	return 1
}

// open opens a regular file. It never blocks.
func open(path string, flag int) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; create the table with a header, such as key,tenant,created,expires", err)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; name the file of the table", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxTable:
		return nil, fmt.Errorf("%s has %d bytes; want at most %d", path, info.Size(), maxTable)
	}
	return os.OpenFile(filepath.Clean(path), flag|syscall.O_NONBLOCK, 0)
}

// read reads a file that open has opened.
func read(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err == nil && len(text) > maxTable {
		err = fmt.Errorf("%s is larger than %d bytes", f.Name(), maxTable)
	}
	return text, err
}
