package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// operation returns the operation of a name; "" means take.
func operation(name string) (op engine.Op, known bool) {
	if name == "" {
		return engine.Take, true
	}
	for op := engine.Take; op <= engine.Reset; op++ {
		if op.String() == name {
			return op, true
		}
	}
	return 0, false
}

// Line is one line of a trace.
type Line struct {
	T    int64  `json:"t"` // ms since the epoch
	Op   string `json:"op"`
	Door string `json:"door"`
	// Hash belongs to the rule set that decided, Instance the name of the instance, and
	// RequestID the identifier of the request. A replay ignores them.
	Hash      string `json:"hash"`
	Instance  string `json:"instance"`
	RequestID string `json:"request_id"`
	// Receipt is the name of the receipt that a take is given, or that a line settles or
	// renews.
	Receipt string `json:"receipt"`
	set
	// Response are the parameters of the response that a settlement brings, without
	// response. before their names.
	Response map[string]string `json:"response"`
	Sets     []set             `json:"sets"`
	Rule     int64             `json:"rule"`
	Erase    int               `json:"erase"`
	Answer   json.RawMessage   `json:"answer"`
	Want     json.RawMessage   `json:"want"` // another name of Answer
}

// set is a parameter set of a call.
type set struct {
	Params map[string]string `json:"params"`
	Hits   *uint64           `json:"hits"`
	Refund bool              `json:"refund"`
	Limit  *limit            `json:"limit"`
}

// limit is a limit that the call itself sets.
type limit struct {
	Count   int64    `json:"count"`
	Seconds int64    `json:"seconds"`
	Entries []string `json:"entries"`
}

// parseLine parses a line. Its error is short and printable, whatever the line has.
func parseLine(text []byte) (*Line, error) {
	l, err := decodeLine(text)
	if err != nil {
		return nil, shortened(err)
	}
	return l, nil
}

func decodeLine(text []byte) (*Line, error) {
	if !utf8.Valid(text) { // encoding/json replaces what is not, by the same character
		return nil, errNotUTF8
	}
	l := new(Line)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a misspelled field would silently change the answer
	if err := d.Decode(l); err != nil {
		return nil, jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected text after the JSON object; want one object per line")
	}
	if err := checkKeys(text); err != nil {
		return nil, err
	}
	return l, l.fault()
}

// jsonError returns a JSON error in terms of the format, without Go types.
func jsonError(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		what := kind.Value
		if kind.Field != "" {
			what = strings.TrimPrefix(kind.Field, "set.") + ": " + what
		}
		return fmt.Errorf("%s is not valid here; want %s", what, kindName(kind.Type.Kind()))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("incomplete JSON object")
	case errors.As(err, &syntax):
		return fmt.Errorf("%w; want a JSON object such as a line of decision_log", err)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// kindName returns what a field of a Go kind holds.
func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "a non-negative integer"
	}
}

// fault returns what is missing or invalid on the line, or nil.
func (l *Line) fault() error {
	op, known := operation(l.Op)
	switch {
	case l.T == 0:
		return errors.New("missing t; want the time of the call in ms since the epoch")
	case l.T < 0 || l.T > maxT:
		return fmt.Errorf("t is %d, out of range; want ms since the epoch, 1 … %d", l.T, int64(maxT))
	case l.IsOnReceipt() || l.Response != nil:
		return l.receiptFault()
	case !known:
		return fmt.Errorf("unknown op %q; want take, browse, update, refund, browse-complete, take-complete, peek, reset, settle or renew", l.Op)
	case (op == engine.Peek || op == engine.Reset) && l.Rule == 0:
		return fmt.Errorf("missing rule; want the number of the rule for %s", l.Op)
	case l.Erase < 0 || l.Erase > 2:
		return fmt.Errorf("erase is %d; want 1 or 2", l.Erase)
	}
	return l.setsFault()
}

// setsFault returns what is wrong with the parameter sets, or nil.
func (l *Line) setsFault() error {
	switch {
	case l.Params == nil && l.Sets == nil:
		return errors.New(`missing params; want "params":{"name":"value"}, or "sets"`)
	case l.Sets == nil:
		return l.Limit.fault()
	case l.Params != nil || l.Hits != nil || l.Refund || l.Limit != nil:
		return errors.New("both sets and fields of a single set; want either")
	case len(l.Sets) == 0:
		return errors.New("sets is empty; want one set at least")
	}
	for i := range l.Sets {
		if err := l.Sets[i].Limit.fault(); err != nil {
			return fmt.Errorf("set %d: %w", i+1, err)
		}
	}
	return nil
}

// The upper bounds of numbers on a line: of t, the latest time that a store
// accepts; of limits, the units of the rate limit service.
const (
	maxT       = 1 << 46
	maxCount   = 1<<32 - 1
	maxSeconds = 31_622_400
)

// fault returns what is wrong with a limit; nil for no limit.
func (l *limit) fault() error {
	switch {
	case l == nil:
		return nil
	case l.Count < 0 || l.Count > maxCount:
		return fmt.Errorf("limit.count is %d; want 0 … %d", l.Count, int64(maxCount))
	case l.Seconds < 1 || l.Seconds > maxSeconds:
		return fmt.Errorf("limit.seconds is %d; want 1 … %d", l.Seconds, maxSeconds)
	}
	return nil
}

// Several reports whether the call has its parameters in "sets". Its answer then
// has an element for each set.
func (l *Line) Several() bool { return l.Sets != nil }

// Recorded returns the answer that the line records; nil if it records none.
func (l *Line) Recorded() json.RawMessage {
	if l.Answer != nil {
		return l.Answer
	}
	return l.Want
}

// Call returns the line as a call of the engine at the time of the line.
func (l *Line) Call() *engine.Call {
	op, _ := operation(l.Op)
	c := &engine.Call{
		Door: l.Door, Op: op, Rule: l.Rule, Erase: l.Erase, Now: l.T, Patience: engine.MaxWait,
		RefuseExcess: doorname.Of(l.Door).RefusesExcess,
	}
	if !l.Several() {
		c.Inputs = []engine.Input{l.input()}
		return c
	}
	for i := range l.Sets {
		c.Inputs = append(c.Inputs, l.Sets[i].input())
	}
	return c
}

func (s *set) input() engine.Input {
	in := engine.Input{Params: rules.MakeParams(s.Params), Hits: 1, Refund: s.Refund}
	if s.Hits != nil {
		in.Hits, in.NoHits = *s.Hits, *s.Hits == 0
	}
	if s.Limit != nil {
		in.Override = &engine.Override{Count: s.Limit.Count, Seconds: s.Limit.Seconds, Entries: s.Limit.Entries}
	}
	return in
}
