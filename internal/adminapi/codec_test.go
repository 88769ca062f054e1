package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/internal/operations"
)

// longRequests are the kinds of long requests.
func longRequests() []any {
	return []any{new(operations.Draft), new(operations.Explanation), new(operations.Replay), new(operations.File), new(operations.Question), new(Additions), new(NewVersion)}
}

// FuzzDecode compares the decoder with encoding/json: both accept a document or neither does,
// with the same result.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"files":[{"name":"a","text":"b\n\u00e9\ud83d\ude00"}],"params":{"uid":"ann"},"request":{"headers":{"A":["b",null]},"metadata":{"n p":"v"},"descriptor":[{"key":"k"}]},"since_ms":5}`,
		`{"files":null,"params":null,"request":null}`, `{"FILES":[]}`, `{"files":[{}],"files":[]}`, `null`, `[]`, `"x"`, `{"nope":1}`, `{} {}`, `{"files":[1]}`, `{"since_ms":"5"}`,
		`{"exceptions":[{"rule":1,"identity":{"a":"b"},"until":"2026-01-01T00:00:00Z"}],"for_ms":7}`, `{"manifest":"m","trial":{"length_ms":1}}`, `{"name":7}`, `{"params":{"a":7}}`, `{"name"`, "{\"name\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, got := range longRequests() {
			want := reflect.New(reflect.TypeOf(got).Elem()).Interface()
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			wantErr := d.Decode(want)
			if _, end := d.Token(); wantErr == nil && !errors.Is(end, io.EOF) {
				wantErr = errors.New("two documents")
			}
			err := newDecoder(t.Context(), bytes.NewReader(text)).document(got)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%T from %q: %v; want %v", got, text, err, wantErr)
			}
			if a, b := asJSON(t, got), asJSON(t, want); err == nil && a != b && !bytes.Contains(text, []byte("null")) {
				t.Fatalf("%T from %q: %s; want %s", got, text, a, b)
			}
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// FuzzLongText decodes and encodes texts of several pieces as encoding/json does.
func FuzzLongText(f *testing.F) {
	for _, seed := range []string{"a", "\n", "é", "😀", "\\", "\"", "a\\\"\n", "\xff", "\xe2\x82", "<&>", "\u2028", "\x7f", "\u202e"} {
		f.Add(seed, uint16(3))
	}
	f.Fuzz(func(t *testing.T, part string, shift uint16) {
		if part == "" || len(part) > 200 {
			return
		}
		text := strings.Repeat("x", int(shift%100)) + strings.Repeat(part, 3*piece/len(part))
		document, err := json.Marshal(operations.File{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		ascii := []byte(`{"name":"","text":"` + strings.Repeat("x", int(shift%100)) + strings.Repeat(`\ud83d\ude00\\\n`, piece/8) + `"}`)
		for _, one := range [][]byte{document, ascii} {
			var got, want operations.File
			if err := json.Unmarshal(one, &want); err != nil {
				t.Fatal(err)
			}
			if err := newDecoder(t.Context(), bytes.NewReader(one)).document(&got); err != nil || got != want {
				t.Fatalf("%v; want the text that encoding/json reads", err)
			}
			var b bytes.Buffer
			if err := encode(t.Context(), &b, &want); err != nil || b.String() != string(jsontext.AppendEscaped(nil, []byte(asJSON(t, &want)))) {
				t.Fatalf("%v; want the text that encoding/json writes, escaped", err)
			}
		}
	})
}

// Answers are written as encoding/json writes them, and end with their callers.
func TestEncode(t *testing.T) {
	status := 7
	for _, v := range []any{
		nil,
		[]int{},
		[]string(nil),
		map[string]int{"b": 1, "a": 2},
		struct{}{},
		true, 1.5, "<x>",
		&explain.Report{Params: []explain.Param{{Name: "a"}}, Rules: []explain.Rule{{Name: "r", Failed: []explain.Condition{{Name: "c"}}}, {}}, Decision: &explain.Decision{}},
		&operations.Why{Rules: []operations.WhyRule{{Identity: operations.Identity{"uid": "ann"}}}, Imported: &operations.WhyImported{Max: 3}},
		&operations.Checked{Contents: []operations.Content{{Sum: "s"}}}, &operations.Book{Imported: []operations.BookLimit{{Path: "p"}}},
		&VersionDetail{Content: &fleet.Manifest{}, Files: []VersionFile{{}}}, &State{Now: time.Unix(1, 0)}, &Progress{At: new(time.Time)}, &Problem{Status: status},
		[]exceptions.Exception{{Identity: map[string]string{"a": "b"}, Until: time.Unix(2, 0).UTC()}, {Signature: "s"}},
	} {
		var b bytes.Buffer
		if err := encode(t.Context(), &b, v); err != nil || b.String() != asJSON(t, v) {
			t.Errorf("%T: %v\n%s\nwant\n%s", v, err, b.String(), asJSON(t, v))
		}
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := encode(left, new(bytes.Buffer), make([]int, 9)); !errors.Is(err, context.Canceled) {
		t.Errorf("without its caller: %v", err)
	}
}
