package trace

import (
	"strconv"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/jsontext"
)

// appendLine appends a call and its answer as a line of a trace of an instance, with
// masked values.
func appendLine(b []byte, at int64, c *engine.Call, d *engine.Decision, m *Mask, instance string) []byte {
	b = strconv.AppendInt(append(b, `{"t":`...), at, 10)
	b = appendOptional(b, `,"op":`, c.Op.String())
	b = appendOptional(b, `,"door":`, c.Door)
	if c.Rules != nil {
		b = appendOptional(b, `,"hash":`, c.Rules.Hash)
	}
	b = appendOptional(b, `,"instance":`, instance)
	if c.Origin != nil {
		b = appendOptional(b, `,"request_id":`, c.Origin.RequestID())
	}
	if d.Receipt != "" {
		b = labelOf(d.Receipt).appendTo(b)
	}
	if len(c.Inputs) == 1 {
		b = appendInput(append(b, ','), c.Door, &c.Inputs[0], m)
	} else {
		b = append(b, `,"sets":[`...)
		for i := range c.Inputs {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendInput(append(b, '{'), c.Door, &c.Inputs[i], m), '}')
		}
		b = append(b, ']')
	}
	if c.Rule != 0 {
		b = appendNumber(b, "rule", c.Rule)
	}
	if c.Erase != 0 {
		b = appendNumber(b, "erase", int64(c.Erase))
	}
	b = AppendAnswer(append(b, `,"answer":`...), c.Op, d, len(c.Inputs) != 1)
	return append(b, "}\n"...)
}

// appendInput appends the fields of one parameter set at a door.
func appendInput(b []byte, door string, in *engine.Input, m *Mask) []byte {
	b = append(b, `"params":{`...)
	for i, p := range in.Params.List() {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.AppendString(b, in.Params.FullName(p.Name))
		b = m.appendTo(append(b, ':'), door, p.Name, p.Value)
	}
	b = strconv.AppendUint(append(b, `},"hits":`...), in.EffectiveHits(), 10)
	if in.Refund {
		b = append(b, `,"refund":true`...)
	}
	if o := in.Override; o != nil {
		b = strconv.AppendInt(append(b, `,"limit":{"count":`...), o.Count, 10)
		b = appendNumber(b, "seconds", o.Seconds)
		b = append(b, `,"entries":[`...)
		for i, e := range o.Entries {
			if i > 0 {
				b = append(b, ',')
			}
			if i%2 == 1 { // keys and values alternate
				b = m.appendTo(b, door, o.Entries[i-1], e)
			} else {
				b = jsontext.AppendString(b, e)
			}
		}
		b = append(b, `]}`...)
	}
	return b
}

// appendOptional appends a field unless its value is empty.
func appendOptional(b []byte, field, value string) []byte {
	if value == "" {
		return b
	}
	return jsontext.AppendString(append(b, field...), value)
}
