package reload

import (
	"log/slog"

	"github.com/fsnotify/fsnotify"
)

// watch has the system report changes in folders. Where it cannot, the looks
// at intervals remain.
type watch struct {
	notify  *fsnotify.Watcher // nil where the system has none to give
	folders map[string]bool
	logger  *slog.Logger
	warned  bool
}

// newWatch returns a watch that follows nothing yet, and never will if it is
// deaf.
func newWatch(logger *slog.Logger, isDeaf bool) *watch {
	w := &watch{folders: make(map[string]bool), logger: logger}
	if isDeaf {
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

// warn says once that changes are seen later than they could be.
func (w *watch) warn(err error) {
	if !w.warned {
		w.logger.Warn("the system does not report changes of the rule files; they are compared at intervals alone", "error", err)
		w.warned = true
	}
}

// events are the system's reports; nil, which never speaks, where there are
// none.
func (w *watch) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

// errors are the system's complaints, such as that reports were lost.
func (w *watch) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// follow watches what these paths depend on now, and nothing else. It tells
// whether it watches a folder that it did not before: of what changed there until
// now there is no report.
func (w *watch) follow(paths []string) (isNew bool) {
	if w.notify == nil {
		return false
	}
	wanted := make(map[string]bool)
	for _, path := range paths {
		for _, folder := range folders(path) {
			wanted[folder] = true
			isNew = isNew || !w.folders[folder]
			// Also for folders that are followed already: one that was
			// replaced by another of its name is not the one we watch.
			if err := w.notify.Add(folder); err != nil {
				w.warn(err)
			}
		}
	}
	for folder := range w.folders {
		if !wanted[folder] {
			// The error is that the folder is gone, which ended the watch.
			_ = w.notify.Remove(folder)
		}
	}
	w.folders = wanted
	return isNew
}

// close ends the watch. Its error is of no use to anyone.
func (w *watch) close() {
	if w.notify != nil {
		_ = w.notify.Close()
	}
}
