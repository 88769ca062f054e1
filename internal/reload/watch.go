package reload

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watch receives events about changes in folders from the operating system. If
// that fails, the Reloader still checks the files at intervals.
type watch struct {
	notify  *fsnotify.Watcher // nil if not available
	folders map[string]bool
	logger  *slog.Logger
	warned  bool
}

// newWatch returns a watch that follows no folder yet. With noEvents it never
// will.
func newWatch(logger *slog.Logger, noEvents bool) *watch {
	w := &watch{folders: make(map[string]bool), logger: logger}
	if noEvents {
		return w
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.warn(err)
		return w
	}
	w.notify = notify
	return w
}

// warn logs once that changes are detected only at intervals.
func (w *watch) warn(err error) {
	if !w.warned {
		w.logger.Warn("cannot watch the rule files; checking them at intervals only", "error", err)
		w.warned = true
	}
}

// events returns the channel of events, or nil, which blocks forever, if there
// are none.
func (w *watch) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

// errors returns the channel of errors, such as lost events.
func (w *watch) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// follow watches the folders that these paths currently depend on, and no others.
// It reports whether a folder is new: there are no events for its earlier
// changes.
func (w *watch) follow(paths []string) (isNew bool) {
	if w.notify == nil {
		return false
	}
	wanted, followed := make(map[string]bool), make(map[string]bool)
	for _, path := range paths {
		// A file in a folder depends on what another file there depends on.
		dir := filepath.Dir(path)
		info, err := os.Lstat(path)
		isFile := err == nil && info.Mode().IsRegular()
		if isFile && followed[dir] {
			continue
		}
		followed[dir] = followed[dir] || isFile
		for _, folder := range folders(path) {
			if wanted[folder] {
				continue
			}
			wanted[folder] = true
			isNew = isNew || !w.folders[folder]
			// Add watched folders again: a folder may have been replaced by
			// another of the same name.
			if err := w.notify.Add(folder); err != nil {
				w.warn(err)
			}
		}
	}
	for folder := range w.folders {
		if !wanted[folder] {
			// It fails only if the folder was removed, which ended the watch.
			_ = w.notify.Remove(folder)
		}
	}
	w.folders = wanted
	return isNew
}

// close ends the watch. Its error is irrelevant at that point.
func (w *watch) close() {
	if w.notify != nil {
		_ = w.notify.Close()
	}
}
