package loglimit

import "log/slog"

// Warner logs warnings of one kind, at most one per Every. It is safe for
// concurrent use.
type Warner struct {
	Logger *slog.Logger

	line Line
}

// Warn logs a warning, unless the last one was less than Every ago. The attribute
// since_last_line is the number of warnings that were not logged since then.
func (w *Warner) Warn(message string, args ...any) {
	if skipped, due := w.line.Due(); due {
		w.Logger.Warn(message, append(args, "since_last_line", skipped)...)
	}
}
