package adminapi

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/pace"
)

// piece is the number of bytes of a document that are read, unquoted or written between two
// pauses.
const piece = 16 << 10

// pieces reads in pieces, with pauses.
type pieces struct {
	ctx context.Context
	io.Reader
}

func (p pieces) Read(b []byte) (int, error) {
	if err := pace.Step(p.ctx); err != nil {
		return 0, err
	}
	return p.Reader.Read(b[:min(len(b), piece)])
}

// decoder decodes a JSON document as encoding/json does, without fields that are unknown, and
// pauses between its members: one call for a large document would delay decisions.
type decoder struct {
	*json.Decoder
	ctx  context.Context
	long *longTexts
}

// newDecoder returns a decoder of the document that a reader has.
func newDecoder(ctx context.Context, in io.Reader) decoder {
	long := &longTexts{ctx: ctx, in: pieces{ctx, in}}
	d := decoder{json.NewDecoder(long), ctx, long}
	d.UseNumber()
	return d
}

// document decodes the whole document into the value at a pointer.
func (d decoder) document(into any) error {
	if err := d.value(reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	var syntax *json.SyntaxError
	switch _, err := d.Token(); {
	case err == nil, errors.As(err, &syntax):
		return errors.New("unexpected text after the JSON document")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// value decodes the next value of the document.
func (d decoder) value(v reflect.Value) error {
	if err := pace.Step(d.ctx); err != nil {
		return err
	}
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	kind := v.Kind()
	if kind == reflect.Pointer {
		kind = v.Type().Elem().Kind()
	}
	if !isText && (kind == reflect.Struct || kind == reflect.Slice || kind == reflect.Map) {
		return d.members(v)
	}
	return d.scalar(v)
}

// members decodes an object or an array.
func (d decoder) members(v reflect.Value) error {
	begin, err := d.Token()
	if err != nil || begin == nil { // null changes nothing
		return err
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	one, want := d.element, json.Delim('[')
	switch v.Kind() {
	case reflect.Struct:
		one, want = d.field, '{'
	case reflect.Map:
		one, want = d.entry, '{'
		v.Set(reflect.MakeMap(v.Type()))
	default:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	if begin != want {
		return fmt.Errorf("cannot use %v as %v", begin, v.Type())
	}
	for d.More() {
		if err := one(v); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// element decodes an element of an array.
func (d decoder) element(v reflect.Value) error {
	next := reflect.New(v.Type().Elem()).Elem()
	if err := d.value(next); err != nil {
		return err
	}
	v.Set(reflect.Append(v, next))
	return nil
}

// entry decodes an entry of a map.
func (d decoder) entry(v reflect.Value) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	key := reflect.New(v.Type().Key())
	if text, ok := key.Interface().(encoding.TextUnmarshaler); ok {
		if err := text.UnmarshalText([]byte(name)); err != nil {
			return err
		}
	} else {
		key.Elem().SetString(name)
	}
	element := reflect.New(v.Type().Elem()).Elem()
	if err := d.value(element); err != nil {
		return err
	}
	v.SetMapIndex(key.Elem(), element)
	return nil
}

// field decodes a field of a struct.
func (d decoder) field(v reflect.Value) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	for _, m := range membersOf(v.Type()) {
		if strings.EqualFold(name, m.name) {
			return d.value(v.FieldByIndex(m.index))
		}
	}
	return fmt.Errorf("unknown field %.100q", name)
}

// name reads the name of a member.
func (d decoder) name() (string, error) {
	token, err := d.Token()
	name, _ := token.(string) // the decoder accepts nothing else
	return d.long.take(d.InputOffset(), name), err
}

// scalar decodes a string, a number or a boolean. It reads no more than that, whatever the
// document has.
func (d decoder) scalar(v reflect.Value) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if _, is := token.(json.Delim); is {
		return fmt.Errorf("cannot use %v as %v", token, v.Type())
	}
	if text, is := token.(string); is {
		text = d.long.take(d.InputOffset(), text)
		if v.Kind() == reflect.String {
			v.SetString(text)
			return nil
		}
		if len(text) > piece {
			return fmt.Errorf("cannot use a text of %d bytes as %v", len(text), v.Type())
		}
		token = text
	}
	text, err := json.Marshal(token)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// unquotable returns the length of a piece at the beginning of a quoted text that can be
// unquoted by itself: it ends neither within a character nor within an escape, nor between
// the two escapes of a surrogate pair.
func unquotable(text []byte) int {
	const (
		escape  = len(`\u0000`)
		most    = 2 * escape // of one step
		longest = utf8.UTFMax
	)
	i := 0
	for i < len(text)-most && (i < piece || !utf8.RuneStart(text[i]) && i < piece+most+longest) {
		switch {
		case text[i] != '\\':
			i++
		case text[i+1] != 'u':
			i += 2
		case isHighSurrogate(text[i:]) && text[i+escape] == '\\' && text[i+escape+1] == 'u':
			i += 2 * escape
		default:
			i += escape
		}
	}
	if i >= len(text)-most {
		return len(text)
	}
	return i
}

// isHighSurrogate reports whether an escape is the first of a pair: \ud800 … \udbff.
func isHighSurrogate(escape []byte) bool {
	return (escape[2] == 'd' || escape[2] == 'D') && strings.IndexByte("89abAB", escape[3]) >= 0
}
