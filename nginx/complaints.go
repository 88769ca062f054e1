package nginx

import (
	"log/slog"
	"sync"
	"time"
)

// complaintInterval is how long a complaint stays unsaid after it was logged.
const complaintInterval = 10 * time.Second

// complaints log what is wrong with gateways. One that is set up wrongly is so
// at every request: each kind of complaint is one line an interval.
type complaints struct {
	logger *slog.Logger
	now    func() time.Time // nil is time.Now

	mu    sync.Mutex
	kinds map[string]*complaint
}

// complaint is one kind of them, by its message. Messages hold nothing that a
// client wrote, so there are few.
type complaint struct {
	said   time.Time
	unsaid int // since then
}

func (c *complaints) warn(message string, arguments ...any) {
	if unsaid, due := c.due(message); due {
		c.logger.Warn(message, append(arguments, "unsaid", unsaid)...)
	}
}

// due tells whether a complaint is to be logged, and how many like it were not.
func (c *complaints) due(message string) (unsaid int, due bool) {
	now := time.Now
	if c.now != nil {
		now = c.now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = make(map[string]*complaint)
	}
	k := c.kinds[message]
	switch {
	case k == nil:
		k = new(complaint)
		c.kinds[message] = k
	case now().Sub(k.said) < complaintInterval:
		k.unsaid++
		return 0, false
	}
	unsaid = k.unsaid
	k.said, k.unsaid = now(), 0
	return unsaid, true
}
