package ratelimit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/hits"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Entries whose keys begin with ownPrefix are for the service itself, and no parameters.
const (
	ownPrefix    = "koala."
	operationKey = "koala.op"
	hitsKey      = "koala.hits"
)

// operation is what a descriptor asks for.
type operation uint8

// The operations.
const (
	decide operation = iota // whether the request may pass: a descriptor without koala.op
	charge                  // record the hits whatever the limits
	refund                  // give the hits back
)

// operationTimeout bounds the operations of a call without other descriptors.
const operationTimeout = time.Second

// readOperations takes the entries that are for the service out of the descriptors, and
// returns the number of descriptors that are operations. Of a repeated key the first
// entry counts.
func (m *message) readOperations() (operations int, err error) {
	for i := range m.descriptors {
		d := &m.descriptors[i]
		entries := m.entriesOf(i)
		if !slices.ContainsFunc(entries, isOwn) {
			continue
		}
		if err := d.readOperation(entries); err != nil {
			return 0, door.Invalid("descriptors[%d]: %v", i, err)
		}
		if d.operation != decide {
			operations++
		}
		d.to = d.from + len(slices.DeleteFunc(entries, isOwn))
	}
	return operations, nil
}

func isOwn(e mapping.Entry) bool { return strings.HasPrefix(e.Key, ownPrefix) }

var errOperation = errors.New("unknown " + operationKey + "; want charge or refund")

func (d *descriptor) readOperation(entries []mapping.Entry) error {
	switch mapping.FirstEntry(entries, operationKey) {
	case "":
	case "charge":
		d.operation = charge
	case "refund":
		d.operation = refund
	default:
		return errOperation
	}
	if d.operation == charge && d.isNegative {
		d.operation = refund
	}
	if !d.hasHits {
		n, ok := hits.Parse(mapping.FirstEntry(entries, hitsKey))
		d.hasHits, d.hits = ok, uint64(n)
	}
	return nil
}

// operate carries out the operations of the call, in their order. Each is a step of its
// own, so that none depends on another, or on the decision about the other descriptors.
// The error belongs to the first operation that failed.
func (c *call) operate(ctx context.Context) error {
	if c.operations == len(c.message.descriptors) {
		// Nobody decides by the answer, which Envoy does not wait for. A charge is
		// carried out even if its caller has left.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
		defer cancel()
	}
	var first error
	for i := range c.message.descriptors {
		if c.message.descriptors[i].operation == decide {
			continue
		}
		if err := c.operateOn(ctx, i); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// operateOn carries out the operation of descriptor i. The error is that of gRPC.
func (c *call) operateOn(ctx context.Context, i int) error {
	s := c.server
	c.question.Resize(1)
	if err := c.fillSet(0, i); err != nil {
		return s.explain(err)
	}
	op := engine.Update
	if c.message.descriptors[i].operation == refund {
		op = engine.Refund
	}
	d, err := s.gate.Decide(ctx, &c.question, engine.Call{Op: op})
	switch {
	case err != nil:
		return s.explain(err)
	case d.Unavailable:
		return unavailable(d)
	}
	return nil
}

// decided returns the index of the n-th descriptor that the decision is about.
func (c *call) decided(n int) int {
	if c.operations == 0 {
		return n
	}
	for i := range c.message.descriptors {
		if c.message.descriptors[i].operation != decide {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return 0
}
