package nginx

import (
	"log/slog"

	"github.com/koalagate/koalagate/internal/ration"
)

// complaints log what is wrong with gateways. One that is set up wrongly is so
// at every request: each kind of complaint is one line every so often.
type complaints struct {
	logger *slog.Logger
	// kinds are those of messages, which hold nothing that a client wrote.
	kinds ration.Lines[string]
}

func (c *complaints) warn(message string, arguments ...any) {
	if unsaid, due := c.kinds.Due(message); due {
		c.logger.Warn(message, append(arguments, "unsaid", unsaid)...)
	}
}
