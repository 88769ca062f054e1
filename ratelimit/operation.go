package ratelimit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/hits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Entries whose keys begin with ownPrefix are for the service itself, and no parameters.
const (
	ownPrefix    = "koala."
	operationKey = "koala.op"
	hitsKey      = "koala.hits"
	receiptKey   = "koala.receipt"
)

// operation is the operation that a descriptor requests.
type operation uint8

// The operations.
const (
	decide operation = iota // whether the request may pass: a descriptor without koala.op
	charge                  // record the hits whatever the limits
	refund                  // give the hits back
	settle                  // settle a receipt
	renew                   // renew a receipt
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

var errOperation = errors.New("unknown " + operationKey + "; want charge or refund, and with " + receiptKey + " renew or none")

// readOperation reads the operation that the descriptor requests. A descriptor with a
// receipt is a settlement, even if the receipt is empty: it must not count as a request.
func (d *descriptor) readOperation(entries []mapping.Entry) error {
	name := mapping.FirstEntry(entries, operationKey)
	switch at := slices.IndexFunc(entries, func(e mapping.Entry) bool { return e.Key == receiptKey }); {
	case at >= 0 && name == "":
		d.operation, d.receipt = settle, entries[at].Value
	case at >= 0 && name == "renew":
		d.operation, d.receipt = renew, entries[at].Value
	case at >= 0:
		return errOperation
	case name == "":
	case name == "charge":
		d.operation = charge
	case name == "refund":
		d.operation = refund
	default:
		return errOperation
	}
	if d.operation == charge && d.isNegative {
		d.operation = refund
	}
	if d.hasHits {
		return nil
	}
	n, ok := hits.ParseAny(mapping.FirstEntry(entries, hitsKey))
	if n > hits.Max && (d.operation != decide || d.isNegative) {
		return nil // an operation counts it as none given; a decision refuses it
	}
	d.hasHits, d.hits = ok, uint64(n)
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
		ctx, cancel = outliving(ctx)
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

// outliving returns a context for operations that are carried out although the caller
// leaves.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
}

// operateOn carries out the operation of descriptor i. The error is a gRPC status.
func (c *call) operateOn(ctx context.Context, i int) error {
	s := c.server
	switch d := &c.message.descriptors[i]; d.operation {
	case settle:
		return c.settle(ctx, i)
	case renew:
		_, err := s.gate.Engine.Renew(ctx, &engine.Settlement{Receipt: d.receipt, Door: doorname.RateLimit})
		return s.explainReceipt(err)
	}
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

// settle settles the receipt of descriptor i. All settlements of the call with this receipt
// are one, which the first of them carries out: with the first hits that are stated, and all
// parameters of the response.
func (c *call) settle(ctx context.Context, i int) error {
	receipt := c.message.descriptors[i].receipt
	s := &engine.Settlement{Receipt: receipt, Door: doorname.RateLimit, Response: new(rules.Params)}
	for j := range c.message.descriptors {
		d := &c.message.descriptors[j]
		if d.operation != settle || d.receipt != receipt {
			continue
		}
		if j < i {
			return nil
		}
		if d.hasHits && !s.HasHits && d.hits <= engine.MaxHits {
			s.Hits, s.HasHits = d.hits, true
		}
		door.StateResponse(s.Response, c.message.entriesOf(j))
	}
	_, err := c.server.gate.Engine.Settle(ctx, s)
	return c.server.explainReceipt(err)
}

// explainReceipt returns the gRPC error of a settlement or a renewal. A receipt that is
// unknown is none: the gateway could do nothing about it.
func (s *Server) explainReceipt(err error) error {
	if err == nil {
		return nil
	}
	s.logger.Debug("a receipt was not settled", "door", doorname.RateLimit, "error", err)
	return status.Error(codes.Unavailable, "no store answered")
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
