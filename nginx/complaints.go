package nginx

import (
	"log/slog"
	"sync"

	"github.com/koalagate/koalagate/ration"
)

// complaints log what is wrong with gateways. One that is set up wrongly is so
// at every request: each kind of complaint is one line every so often.
type complaints struct {
	logger *slog.Logger

	mu    sync.Mutex
	kinds map[string]*ration.Line // by their messages, which hold nothing that a client wrote: there are few
}

func (c *complaints) warn(message string, arguments ...any) {
	if unsaid, due := c.line(message).Due(); due {
		c.logger.Warn(message, append(arguments, "unsaid", unsaid)...)
	}
}

// line is that of a message.
func (c *complaints) line(message string) *ration.Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = make(map[string]*ration.Line)
	}
	if c.kinds[message] == nil {
		c.kinds[message] = new(ration.Line)
	}
	return c.kinds[message]
}
