// Package folder reads limits from the runtime folder of envoyproxy/ratelimit, and again
// when it changes.
//
// The folder is watched in one of two ways. With WatchRoot it is read when the symbolic
// link Root points to another folder, so that all files change at once. Without, it is
// read when any file in it changes.
package folder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// Options configure a Folder. Root or Files is required.
type Options struct {
	// Files are read instead of the files of a folder.
	Files []string
	// Root is the folder, or a symbolic link to it; Sub is a folder in it, App a folder
	// in that, which holds the files.
	Root, Sub, App string
	WatchRoot      bool
	// NoDots ignores files and folders whose names begin with a dot.
	NoDots bool
	// Poll is the time between two checks that do not depend on events of the operating
	// system; 0 for 2 s.
	Poll time.Duration
	// Logger receives faults of the watch; nil for slog.Default.
	Logger *slog.Logger
}

// Folder is a runtime folder.
type Folder struct {
	Options
	state string // of the folder when it was read last
}

// New returns a folder, which has not been read yet.
func New(o Options) *Folder {
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Folder{Options: o}
}

// gatherDelay is the time from an event to the check: saving a file causes several.
const gatherDelay = 20 * time.Millisecond

// Run reads the folder now and whenever it changes, until ctx is done. It passes what it
// read to apply, or an error that names the file.
func (f *Folder) Run(ctx context.Context, apply func([]*envoylimits.Config, error)) {
	var events <-chan fsnotify.Event
	var faults <-chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		events, faults = watcher.Events, watcher.Errors
	} else {
		f.Logger.Warn("the operating system reports no changes; checking the runtime folder at intervals", "interval", f.Poll.String(), "error", err)
	}
	due := time.NewTimer(0)
	defer due.Stop()
	poll := time.NewTicker(f.Poll)
	defer poll.Stop()
	isFirst := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			due.Reset(gatherDelay)
			continue
		case err := <-faults:
			f.Logger.Warn("events of the runtime folder were lost; checking it", "error", err)
		case <-due.C:
		case <-poll.C:
		}
		if watcher != nil {
			f.watch(watcher)
		}
		if f.changed() || isFirst {
			isFirst = false
			configs, err := f.Read()
			if len(configs) == 0 && err == nil {
				f.Logger.Warn("the runtime folder has no files, so nothing is limited", "folder", filepath.Join(f.Root, f.Sub, f.App))
			}
			apply(configs, err)
		}
	}
}

// watch makes the watcher report changes of the folder, which may have been created or
// replaced since.
func (f *Folder) watch(w *fsnotify.Watcher) {
	for _, path := range f.Files {
		_ = w.Add(filepath.Dir(path)) // if it does not exist, the interval remains
	}
	if len(f.Files) > 0 {
		return
	}
	if f.WatchRoot {
		_ = w.Add(filepath.Dir(filepath.Clean(f.Root))) // if it does not exist, the interval remains
		return
	}
	_ = filepath.WalkDir(f.folder(), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return w.Add(path)
		}
		return nil
	})
}

// folder returns the folder whose files are read.
func (f *Folder) folder() string {
	if f.WatchRoot {
		return filepath.Join(f.Root, f.Sub)
	}
	return filepath.Join(f.Root, f.Sub, f.App)
}

// changed reports whether the folder may have changed since the last call.
func (f *Folder) changed() bool {
	var state string
	if f.WatchRoot {
		target, err := os.Readlink(filepath.Clean(f.Root))
		state = fmt.Sprint(target, err != nil)
		if _, missing := os.Stat(f.Root); missing != nil {
			state += " missing"
		}
	} else {
		sum := sha256.New()
		_ = f.files(func(name, path string) error {
			text, err := readFile(path)
			fmt.Fprintf(sum, "%q %d %v ", name, len(text), err) // the error has the size of a large file
			sum.Write(text)
			return nil
		})
		state = string(sum.Sum(nil))
	}
	before := f.state
	f.state = state
	return state != before
}

// Hash returns the hash of the files when they were read last, in hex.
func (f *Folder) Hash() string { return hex.EncodeToString([]byte(f.state)) }

// First reads the files for the first time, before Run.
func (f *Folder) First() ([]*envoylimits.Config, error) {
	f.changed()
	return f.Read()
}

// Read reads all files of the folder. The error names the first that is faulty.
func (f *Folder) Read() ([]*envoylimits.Config, error) {
	var configs []*envoylimits.Config
	err := f.files(func(name, path string) error {
		text, err := readFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		config, err := envoylimits.Read(name, text)
		if err == nil {
			configs = append(configs, config)
		}
		return err
	})
	return configs, err
}

// maxFile is the largest size of a file in bytes.
const maxFile = 64 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%d bytes; want at most %d", info.Size(), maxFile)
	}
	return os.ReadFile(path) //nolint:gosec // the path is the operator's own
}

// files calls visit for each file in the order of their paths, with its name: its path
// below the folder, with dots between folders. Options.Files are visited in their own order, by
// their last elements.
func (f *Folder) files(visit func(name, path string) error) error {
	for _, path := range f.Files {
		if err := visit(filepath.Base(path), path); err != nil {
			return err
		}
	}
	if len(f.Files) > 0 {
		return nil
	}
	folder, err := filepath.EvalSymlinks(f.folder())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no files yet, so no limits
		}
		return err
	}
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == folder:
			return nil
		case f.NoDots && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		info, err := os.Stat(path) // of the file behind a symbolic link
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // a link to a folder, or one that is gone
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(relative, string(filepath.Separator), ".")
		if f.WatchRoot && !strings.HasPrefix(name, f.App+".") {
			return nil
		}
		return visit(name, path)
	})
}
