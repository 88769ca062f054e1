package traffic

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
)

// Event is an event for subscribers.
type Event struct {
	Name string // one of the names below
	Data []byte // a JSON document of one line
}

// The names of events.
const (
	EventDecisions = "decisions" // a Second, every second
	EventRules     = "rules"     // the rules in force or their state changed
	EventTrial     = "trial"     // the state of a trial
	EventChange    = "change"    // an operator changed something
)

const (
	// maxSubscribers bounds the memory and the work for subscribers.
	maxSubscribers = 64
	// maxBehind is the number of events that a subscriber may be behind.
	maxBehind = 32
)

// ErrFull reports that there are too many subscribers.
var ErrFull = errors.New("there are 64 subscribers of events, which is the maximum")

// ErrClosed reports that the instance ends.
var ErrClosed = errors.New("this instance is ending")

// Hub passes events to subscribers. It never waits for one: a subscriber that is too far
// behind loses its subscription. The zero value is ready for use. It is safe for
// concurrent use.
type Hub struct {
	mu     sync.Mutex
	list   []*Subscription
	states []Event // the last event of each name that reports a state
	closed bool
}

// Subscription receives events until it or the hub is closed.
type Subscription struct {
	// Events has the events. It is closed when the hub closes and when the subscriber is
	// too far behind.
	Events <-chan Event

	events chan Event
	hub    *Hub
}

// Subscribe returns a new subscription, which begins with the current states. The error
// is ErrFull or ErrClosed.
func (h *Hub) Subscribe() (*Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case len(h.list) >= maxSubscribers:
		return nil, ErrFull
	}
	events := make(chan Event, maxBehind)
	s := &Subscription{Events: events, events: events, hub: h}
	for _, e := range h.states {
		events <- e // fewer than maxBehind
	}
	h.list = append(h.list, s)
	return s, nil
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.remove(s)
}

// remove ends a subscription, unless it has ended. h.mu is held.
func (h *Hub) remove(s *Subscription) {
	if i := slices.Index(h.list, s); i >= 0 {
		h.list = slices.Delete(h.list, i, i+1)
		close(s.events)
	}
}

// Send sends an event with a document to all subscribers.
func (h *Hub) Send(name string, document any) { h.send(name, document, false) }

// SendState is Send for an event that reports a state: later subscribers receive the last
// one of its name at first.
func (h *Hub) SendState(name string, document any) { h.send(name, document, true) }

func (h *Hub) send(name string, document any, isState bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.list) == 0 && !isState {
		return
	}
	data, err := json.Marshal(document)
	if err != nil {
		return // documents of this program can always be encoded
	}
	e := Event{name, data}
	if isState {
		h.states = append(slices.DeleteFunc(h.states, func(s Event) bool { return s.Name == name }), e)
	}
	for _, s := range slices.Clone(h.list) {
		select {
		case s.events <- e:
		default:
			h.remove(s)
		}
	}
}

// Close ends all subscriptions. Later ones are refused.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, s := range slices.Clone(h.list) {
		h.remove(s)
	}
}
