package main

import (
	"log/slog"

	"github.com/koalagate/koalagate/internal/ration"
)

// complaints are log lines about what may happen with every call: one every so
// often.
type complaints struct {
	logger *slog.Logger
	line   ration.Line
}

// tell logs a complaint, unless the last one was a moment ago.
func (c *complaints) tell(message string, args ...any) {
	if unsaid, due := c.line.Due(); due {
		c.logger.Warn(message, append(args, "since_last_line", unsaid)...)
	}
}
