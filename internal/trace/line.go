package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// names are the names of the operations on a line.
var names = [...]string{
	engine.Take:         "take",
	engine.Browse:       "browse",
	engine.Update:       "update",
	engine.Refund:       "refund",
	engine.Complete:     "browse-complete",
	engine.CompleteTake: "take-complete",
	engine.Peek:         "peek",
	engine.Reset:        "reset",
}

// operation is the one that a line names, take unless said.
func operation(name string) (op engine.Op, known bool) {
	if name == "" {
		return engine.Take, true
	}
	at := slices.Index(names[:], name)
	return engine.Op(max(at, 0)), at >= 0
}

// Line is a call as it stands on a line of a trace.
type Line struct {
	T    int64  `json:"t"` // ms since the epoch
	Op   string `json:"op"`
	Door string `json:"door"`
	set
	Sets   []set           `json:"sets"`
	Rule   int64           `json:"rule"`
	Erase  int             `json:"erase"`
	Answer json.RawMessage `json:"answer"`
	Want   json.RawMessage `json:"want"` // another name of Answer
}

// set is one parameter set of a call.
type set struct {
	Params map[string]string `json:"params"`
	Hits   *uint64           `json:"hits"`
	Refund bool              `json:"refund"`
	Limit  *limit            `json:"limit"`
}

// limit is one that the call itself brought.
type limit struct {
	Count   int64    `json:"count"`
	Seconds int64    `json:"seconds"`
	Entries []string `json:"entries"`
}

// parseLine reads the text of a line.
func parseLine(text []byte) (*Line, error) {
	l := new(Line)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a slip in a name would change the answer silently
	if err := d.Decode(l); err != nil {
		return nil, inWords(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the JSON object; want one object a line")
	}
	return l, l.fault()
}

// inWords says what is wrong with JSON without naming types of Go.
func inWords(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		what := kind.Value
		if kind.Field != "" {
			what = strings.TrimPrefix(kind.Field, "set.") + ": " + what
		}
		return fmt.Errorf("%s does not do; want %s", what, wanted(kind.Type.Kind()))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is cut off")
	case errors.As(err, &syntax):
		return fmt.Errorf("%w; want a JSON object, as a line of decision_log is one", err)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// wanted is what a field holds, in words.
func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "a whole number that is not negative"
	}
}

// fault says what is missing on the line, or too much.
func (l *Line) fault() error {
	op, known := operation(l.Op)
	switch {
	case l.T <= 0:
		return errors.New("t is missing; want the time of the call in ms since the epoch")
	case l.T > maxT:
		return fmt.Errorf("t is %d, which is no time that a store counts with; want ms since the epoch, 1 … %d", l.T, int64(maxT))
	case !known:
		return fmt.Errorf("unknown op %q; want take, browse, update, refund, browse-complete, take-complete, peek or reset", l.Op)
	case (op == engine.Peek || op == engine.Reset) && l.Rule == 0:
		return fmt.Errorf("rule is missing; want the number of the rule that %s is about", l.Op)
	case l.Erase < 0 || l.Erase > 2:
		return fmt.Errorf("erase is %d; want 1 or 2", l.Erase)
	}
	return l.setsFault()
}

// setsFault says what is wrong with the parameters.
func (l *Line) setsFault() error {
	switch {
	case l.Params == nil && l.Sets == nil:
		return errors.New(`params are missing; want "params":{"name":"value"}, or "sets"`)
	case l.Sets == nil:
		return l.Limit.fault()
	case l.Params != nil || l.Hits != nil || l.Refund || l.Limit != nil:
		return errors.New("sets stand beside params; want the one or the other")
	case len(l.Sets) == 0:
		return errors.New("there is no set in sets")
	}
	for i := range l.Sets {
		if err := l.Sets[i].Limit.fault(); err != nil {
			return fmt.Errorf("set %d: %w", i+1, err)
		}
	}
	return nil
}

// The bounds of what a line may say. A store counts with no later time, and
// callers' limits are those of the rate limit service.
const (
	maxT       = 1 << 46
	maxCount   = 1<<32 - 1
	maxSeconds = 31_622_400
)

// fault says what is wrong with a limit; without one nothing is.
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

// Several tells whether the call has its parameters in sets. Its answer then
// has one for each.
func (l *Line) Several() bool { return l.Sets != nil }

// Recorded is what was answered when the line was written; nil if the line
// does not tell.
func (l *Line) Recorded() json.RawMessage {
	if l.Answer != nil {
		return l.Answer
	}
	return l.Want
}

// Call is the line as a question to the engine, under the line's own clock.
func (l *Line) Call() *engine.Call {
	op, _ := operation(l.Op)
	c := &engine.Call{Door: l.Door, Op: op, Rule: l.Rule, Erase: l.Erase, Now: l.T}
	if !l.Several() {
		c.Sets = []engine.Input{l.input()}
		return c
	}
	for i := range l.Sets {
		c.Sets = append(c.Sets, l.Sets[i].input())
	}
	return c
}

func (s *set) input() engine.Input {
	in := engine.Input{Params: rules.MakeParams(s.Params), Hits: 1, Refund: s.Refund}
	if s.Hits != nil {
		in.Hits = *s.Hits
	}
	if s.Limit != nil {
		in.Override = &engine.Override{Count: s.Limit.Count, Seconds: s.Limit.Seconds, Entries: s.Limit.Entries}
	}
	return in
}
