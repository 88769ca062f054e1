package adminapi

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/internal/pace"
)

// encoder writes a JSON document as a json.Encoder with an indent of two spaces does, and
// pauses between its members: one call for a large document would delay decisions, and take
// its memory twice.
type encoder struct {
	ctx context.Context
	out io.Writer
	bytes.Buffer
	escaped []byte
}

// encode writes the document of a value. The error comes from ctx or out, or reports a value
// that JSON does not have.
func encode(ctx context.Context, out io.Writer, value any) error {
	e := &encoder{ctx: ctx, out: out}
	if err := e.value(reflect.ValueOf(value), "\n"); err != nil {
		return err
	}
	e.WriteByte('\n')
	return e.flush()
}

// step pauses, and writes what there is.
func (e *encoder) step() error {
	if err := pace.Step(e.ctx); err != nil || e.Len() < piece {
		return err
	}
	return e.flush()
}

// flush writes what there is, with escapes of characters that a terminal interprets.
func (e *encoder) flush() error {
	e.escaped = jsontext.AppendEscaped(e.escaped[:0], e.Bytes())
	e.Reset()
	_, err := e.out.Write(e.escaped)
	return err
}

// value writes a value. Its lines begin with newline.
func (e *encoder) value(v reflect.Value, newline string) error {
	if err := e.step(); err != nil {
		return err
	}
	if v.IsValid() && v.CanInterface() {
		switch v.Interface().(type) {
		case json.Marshaler, encoding.TextMarshaler:
			return e.whole(v, newline)
		}
	}
	switch kind := v.Kind(); {
	case (kind == reflect.Pointer || kind == reflect.Interface) && !v.IsNil():
		return e.value(v.Elem(), newline)
	case kind == reflect.Struct:
		return e.fields(v, newline)
	case kind == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8:
		return e.elements(v, newline)
	case kind == reflect.String && v.Len() > piece:
		return e.text(v.String())
	}
	return e.whole(v, newline)
}

// whole writes a value at once.
func (e *encoder) whole(v reflect.Value, newline string) error {
	if !v.IsValid() {
		e.WriteString("null")
		return nil
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return err
	}
	return json.Indent(&e.Buffer, text, newline[1:], "  ")
}

func (e *encoder) elements(v reflect.Value, newline string) error {
	for i := range v.Len() {
		e.WriteString([]string{"[", ","}[min(i, 1)] + newline + "  ")
		if err := e.value(v.Index(i), newline+"  "); err != nil {
			return err
		}
	}
	e.WriteString(newline + "]")
	return nil
}

// fields writes a struct.
func (e *encoder) fields(v reflect.Value, newline string) error {
	before := "{"
	for _, m := range membersOf(v.Type()) {
		field, err := v.FieldByIndexErr(m.index)
		if err != nil || m.omitEmpty && isEmpty(field) { // err reports an embedded nil
			continue
		}
		e.WriteString(before + newline + `  "` + m.name + `": `)
		before = ","
		if err := e.value(field, newline+"  "); err != nil {
			return err
		}
	}
	if before == "{" {
		e.WriteString("{}")
		return nil
	}
	e.WriteString(newline + "}")
	return nil
}

// isEmpty reports whether omitempty omits a value.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// text writes a long string in pieces.
func (e *encoder) text(text string) error {
	e.WriteByte('"')
	for len(text) > 0 {
		n := min(len(text), piece)
		for back := 0; back < utf8.UTFMax-1 && n < len(text) && !utf8.RuneStart(text[n]); back++ {
			n--
		}
		quoted, err := json.Marshal(text[:n])
		if err != nil {
			return err
		}
		e.Write(quoted[1 : len(quoted)-1])
		text = text[n:]
		if err := e.step(); err != nil {
			return err
		}
	}
	e.WriteByte('"')
	return nil
}
