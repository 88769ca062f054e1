package trace

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/rules"
)

// The operations of lines about receipts, which are no calls.
const (
	opSettle = "settle"
	opRenew  = "renew"
)

// label is the name of a receipt in a trace. All instances give a receipt the same name,
// which does not reveal it: who has a receipt can give back what its request reserved.
type label [12]byte

func labelOf(receipt string) label {
	sum := sha256.Sum256([]byte(receipt))
	return label(sum[:])
}

func (l label) appendTo(b []byte) []byte {
	return append(base64.RawURLEncoding.AppendEncode(append(b, `,"receipt":"`...), l[:]), '"')
}

// isSampled reports whether one in every calls with receipts, to which this one belongs, is
// logged: its settlement by any instance is then logged, too.
func (l label) isSampled(every int) bool {
	return binary.BigEndian.Uint64(l[:])%uint64(every) == 0
}

// isSampled reports whether a decision belongs to the sample.
func (l *Log) isSampled(d *engine.Decision) bool {
	switch {
	case l.options.Every <= 1:
		return true
	case d.Receipt != "":
		return labelOf(d.Receipt).isSampled(l.options.Every)
	}
	return rand.IntN(l.options.Every) == 0 //nolint:gosec // a sample needs no cryptographic randomness
}

// Settled logs a settlement, and Renewed a renewal, if its receipt was valid and belongs to
// the sample. They have the signatures of engine.ObserveSettlements.
func (l *Log) Settled(s *engine.Settlement, got engine.Settled, err error) {
	l.onReceipt(opSettle, s, got, err)
}

// Renewed is described with Settled.
func (l *Log) Renewed(s *engine.Settlement, got engine.Settled, err error) {
	l.onReceipt(opRenew, s, got, err)
}

func (l *Log) onReceipt(op string, s *engine.Settlement, got engine.Settled, err error) {
	if err != nil || !got.Known {
		return
	}
	name := labelOf(s.Receipt)
	if !name.isSampled(l.options.Every) {
		return
	}
	at := s.Now
	if at == 0 {
		at = time.Now().UnixMilli()
	}
	b := l.buffers.Get().(*[]byte)
	*b = appendSettlement((*b)[:0], at, op, name, s, got, l.options)
	l.add(*b)
	l.buffers.Put(b)
}

// appendSettlement appends an operation on a receipt as a line of a trace.
func appendSettlement(b []byte, at int64, op string, name label, s *engine.Settlement, got engine.Settled, o LogOptions) []byte {
	b = strconv.AppendInt(append(b, `{"t":`...), at, 10)
	b = appendOptional(b, `,"op":`, op)
	b = appendOptional(b, `,"door":`, s.Door)
	b = appendOptional(b, `,"instance":`, o.Instance)
	b = name.appendTo(b)
	if s.HasHits {
		b = strconv.AppendUint(append(b, `,"hits":`...), s.Hits, 10)
	}
	separator := `,"response":{`
	for _, p := range s.Response.List() {
		name, is := strings.CutPrefix(p.Name, rules.ResponsePrefix)
		if !is {
			continue
		}
		b = jsontext.AppendString(append(b, separator...), name)
		b = o.Mask.appendTo(append(b, ':'), s.Door, p.Name, p.Value)
		separator = ","
	}
	if separator == "," {
		b = append(b, '}')
	}
	b = append(b, `,"answer":{"verdict":"ok"`...)
	if got.Deferred {
		b = append(b, `,"degraded":true`...)
	}
	return append(b, "}}\n"...)
}

// IsOnReceipt reports whether the line settles or renews a receipt. It is then no call.
func (l *Line) IsOnReceipt() bool { return l.Op == opSettle || l.Op == opRenew }

// Renews reports whether the line renews a receipt.
func (l *Line) Renews() bool { return l.Op == opRenew }

// Settlement returns the line as the settlement or the renewal of a receipt.
func (l *Line) Settlement(receipt string) *engine.Settlement {
	s := &engine.Settlement{Receipt: receipt, Door: l.Door, Now: l.T, Response: new(rules.Params)}
	if l.Hits != nil {
		s.Hits, s.HasHits = *l.Hits, true
	}
	for name, value := range l.Response {
		s.Response.Set(rules.ResponsePrefix+name, value)
	}
	return s
}

// AppendEnd appends the answer to a line about a receipt.
func AppendEnd(b []byte, known bool) []byte {
	if known {
		return append(b, `{"verdict":"ok"}`...)
	}
	return append(b, `{"verdict":"unknown"}`...)
}

var errCallWithResponse = errors.New("a response belongs to op settle")

// receiptFault returns what is wrong with the fields about receipts, or nil.
func (l *Line) receiptFault() error {
	switch {
	case !l.IsOnReceipt() && l.Response != nil:
		return errCallWithResponse
	case !l.IsOnReceipt():
		return nil
	case l.Receipt == "":
		return fmt.Errorf("missing receipt; want the name that the line of the take gave it, for %s", l.Op)
	case l.Params != nil || l.Sets != nil || l.Refund || l.Limit != nil || l.Rule != 0 || l.Erase != 0:
		return fmt.Errorf("%s takes receipt, hits and response only", l.Op)
	case l.Renews() && (l.Hits != nil || l.Response != nil):
		return errors.New("renew takes a receipt only")
	case l.Hits != nil && *l.Hits > engine.MaxHits:
		return fmt.Errorf("hits is %d; want 0 … %d", *l.Hits, int64(engine.MaxHits))
	}
	return nil
}
