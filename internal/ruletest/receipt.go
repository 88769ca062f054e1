package ruletest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/rules"
)

// Ending is how the request of a step ended.
type Ending struct {
	// Used is the number of hits that the request used, if HasUsed is set.
	Used    uint64
	HasUsed bool
	// Response are the parameters of the response, whose names begin with response.
	Response *rules.Params
}

// The operations of steps on receipts.
const (
	opSettle = "settle"
	opRenew  = "renew"
)

// onReceipt maps the operations of steps on receipts to operations of a sandbox.
var onReceipt = map[string]func(*sandbox.Sandbox, context.Context, *engine.Settlement) (engine.Settled, error){
	opSettle: (*sandbox.Sandbox).Settle, opRenew: (*sandbox.Sandbox).Renew,
}

// receipts are the receipts of a case by the names that its steps give them.
type receipts map[string]string

// operate carries out the operation of a step on a receipt.
func (s *Step) operate(ctx context.Context, counters *sandbox.Sandbox, known receipts, now time.Time) *Failure {
	receipt, found := known[s.Receipt]
	if !found {
		return &Failure{Err: fmt.Errorf("no step before names its receipt %q", s.Receipt)}
	}
	for call := 1; call <= s.Times; call++ {
		if err := s.end(ctx, counters, s.OnReceipt, receipt, now); err != nil {
			return &Failure{Call: call, Err: fmt.Errorf("the receipt %q: %w", s.Receipt, err)}
		}
	}
	return nil
}

var (
	errUnknown   = errors.New("it is settled already, or has expired")
	errNoReceipt = errors.New("the request has no receipt: it is refused, or no rule that it meets has settle=, is a [hold] rule or has a condition on a parameter of the response")
)

// end settles or renews a receipt at the time of the step.
func (s *Step) end(ctx context.Context, counters *sandbox.Sandbox, operation, receipt string, now time.Time) error {
	end := &engine.Settlement{Receipt: receipt, Now: now.UnixMilli()}
	if s.Ending != nil {
		end.Hits, end.HasHits, end.Response = s.Ending.Used, s.Ending.HasUsed, s.Ending.Response
	}
	got, err := onReceipt[operation](counters, ctx, end)
	if err == nil && !got.Known {
		err = errUnknown
	}
	return err
}

// follow keeps the receipt of a decision, or settles it, as the step says. A step that
// states how its requests end settles the requests that have receipts.
func (s *Step) follow(ctx context.Context, counters *sandbox.Sandbox, known receipts, d *engine.Decision, now time.Time) error {
	receipt := ""
	if d != nil {
		receipt = d.Receipt
	}
	switch {
	case s.Receipt != "" && receipt == "":
		return errNoReceipt
	case s.Receipt != "":
		known[s.Receipt] = receipt
	case s.Ending != nil && receipt != "":
		return s.end(ctx, counters, opSettle, receipt, now)
	}
	return nil
}

// response reads parameters of the response, without response. before their names.
func (r *reader) response(to **Ending) field {
	return func(n *yaml.Node) error {
		end := ending(to)
		return r.pairs(n, "response", func(key, value *yaml.Node) error {
			var text string
			err := r.text(&text)(value)
			end.Response.Set(rules.ResponsePrefix+key.Value, text)
			return err
		})
	}
}

// used reads the number of hits that a request used.
func (r *reader) used(to **Ending) field {
	return func(n *yaml.Node) error {
		var hits int64
		err := r.number(&hits, 0, engine.MaxHits)(n)
		end := ending(to)
		end.Used, end.HasUsed = uint64(hits), true
		return err
	}
}

func ending(to **Ending) *Ending {
	if *to == nil {
		*to = &Ending{Response: new(rules.Params)}
	}
	return *to
}

// checkReceipt returns an error if the keys of a step about receipts do not go together.
func (r *fileReader) checkReceipt(n *yaml.Node, s *Step) error {
	switch {
	case s.OnReceipt == "" && s.Op != engine.Take && (s.Receipt != "" || s.Ending != nil):
		return r.errorf(n, "only a take has a receipt; remove receipt, response and used")
	case s.OnReceipt == "" && s.Receipt != "" && (s.Ending != nil || s.Times > 1):
		return r.errorf(n, "receipt names the receipt of one request for a later step; want neither times nor response nor used here")
	case s.OnReceipt == "":
		return nil
	case s.Receipt == "":
		return r.errorf(n, "receipt is missing; want the name that the step of the request gave it")
	case len(s.Wants) > 0:
		return r.errorf(n, "a step with op: %s expects nothing; it fails if the receipt is settled already or has expired", s.OnReceipt)
	case s.OnReceipt == opRenew && s.Ending != nil:
		return r.errorf(n, "op: renew takes neither response nor used")
	}
	return nil
}
