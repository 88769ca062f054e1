package nginx

import (
	"log/slog"

	"github.com/koalagate/koalagate/internal/loglimit"
)

// complaints logs faults in the configuration of gateways. Such a fault concerns every
// request, so each message is logged once per loglimit.Every.
type complaints struct {
	logger *slog.Logger
	// lines are the messages, which contain nothing that a client wrote.
	lines loglimit.Lines[string]
}

func (c *complaints) warn(message string, arguments ...any) {
	if omitted, due := c.lines.Due(message); due {
		c.logger.Warn(message, append(arguments, "suppressed", omitted)...)
	}
}
