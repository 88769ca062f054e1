package redis

import (
	"errors"
	"fmt"
	"net"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// argument is the argument of a bundle's command. The client library encodes it when it
// writes the command to a connection.
type argument bundle

// MarshalBinary returns the encoded argument for the client library.
func (a *argument) MarshalBinary() ([]byte, error) {
	a.written = true
	return a.blob.bytes, nil
}

// unsent marks the error of a round trip in which the script certainly did not run: no
// connection took the command, or only a part of it. alone reports that the round trip
// had no other command; of several, Redis may carry out the commands that it got.
func (b *bundle) unsent(err error, alone bool) error {
	if isReply(err) {
		return err
	}
	var network *net.OpError
	isCut := alone && errors.As(err, &network) && network.Op == "write"
	if b.written && !isCut {
		return err
	}
	return fmt.Errorf("%w: %w", redisconn.ErrUnsent, err)
}

var _ store.Late = (*Call)(nil)

// Result implements store.Late for a call whose caller has left. A reply that is an
// error means that nothing was counted.
func (c *Call) Result(p *store.Plan, a *store.Answers) (ended bool, err error) {
	select {
	case <-c.done:
	default:
		return false, nil
	}
	switch {
	case c.err != nil && isReply(c.err):
		return true, fmt.Errorf("%w: %w", redisconn.ErrUnsent, c.err)
	case c.err != nil:
		return true, c.err
	}
	a.Reset(len(p.Sets))
	return true, c.Read(p, a)
}
