package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
)

var pseudonym = regexp.MustCompile(`"#[0-9a-f]{16}"`)

func TestReaderErrorsNameTheLine(t *testing.T) {
	const good = `{"t":1,"params":{}}`
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":            {"\n\n" + good + "\nx", "line 4: invalid character 'x' looking for beginning of value; want a JSON object such as a line of decision_log"},
		"incomplete":         {good[:9], "line 1: incomplete JSON object"},
		"two objects":        {good + good, "line 1: unexpected text after the JSON object; want one object per line"},
		"no time":            {`{"params":{}}`, "line 1: missing t; want the time of the call in ms since the epoch"},
		"no parameters":      {`{"t":1}`, `line 1: missing params; want "params":{"name":"value"}, or "sets"`},
		"params and sets":    {`{"t":1,"params":{},"sets":[{}]}`, "line 1: both sets and fields of a single set; want either"},
		"no set":             {`{"t":1,"sets":[]}`, "line 1: sets is empty; want one set at least"},
		"an unknown op":      {`{"t":1,"op":"x","params":{}}`, `line 1: unknown op "x"; want take, browse, update, refund, browse-complete, take-complete, peek, reset, settle or renew`},
		"peek without rule":  {`{"t":1,"op":"peek","params":{}}`, "line 1: missing rule; want the number of the rule for peek"},
		"an unknown erase":   {`{"t":1,"op":"refund","erase":3,"params":{}}`, "line 1: erase is 3; want 1 or 2"},
		"a misspelled field": {`{"t":1,"parms":{}}`, `line 1: unknown field "parms"`},
		"a string for t":     {`{"t":"1","params":{}}`, "line 1: t: string is not valid here; want a non-negative integer"},
		"a fraction":         {`{"t":1,"params":{},"hits":1.5}`, "line 1: hits: number 1.5 is not valid here; want a non-negative integer"},
		"an array of params": {`{"t":1,"params":[]}`, "line 1: params: array is not valid here; want an object"},
		"a line too long":    {good + "\n" + strings.Repeat(" ", trace.MaxLine) + "\n", "line 2: longer than 1048576 bytes; want one call per line"},
		"a time in µs":       {`{"t":1780286400000000,"params":{}}`, "line 1: t is 1780286400000000, out of range; want ms since the epoch, 1 … 70368744177664"},
		"a limit below 0":    {`{"t":1,"params":{},"limit":{"count":-1,"seconds":1}}`, "line 1: limit.count is -1; want 0 … 4294967295"},
		"a limit without s":  {`{"t":1,"sets":[{},{"limit":{"count":1}}]}`, "line 1: set 2: limit.seconds is 0; want 1 … 31622400"},
		"a field twice":      {`{"t":1,"params":{},"params":{"a":"b"}}`, `line 1: "params" occurs twice in an object; want each name once`},
		"a parameter twice":  {`{"t":1,"params":{"a":"1","\u0061":"2"}}`, `line 1: "a" occurs twice in an object; want each name once`},
		"one of many twice":  {`{"t":1,"params":{` + entries(100) + `,"p50":""}}`, `line 1: "p50" occurs twice in an object; want each name once`},
		"bytes that are not": {"{\"t\":1,\"params\":{\"a\":\"\xff\"}}", "line 1: the line is not UTF-8; want UTF-8, in which each caller keeps a value of its own"},
		"half a character":   {`{"t":1,"params":{"a":"\ud800"}}`, `line 1: the escape \ud800 is half a character; want both halves`},
		"another half":       {`{"t":1,"params":{"a":"\ud800\u0041"}}`, `line 1: the escape \ud800 is half a character; want both halves`},
		"a NUL":              {"{\"t\":1,\"params\":{\"a\":\"\x00\"}}", `line 1: invalid character '\x00' in string literal; want a JSON object such as a line of decision_log`},
		"NULs":               {strings.Repeat("\x00", 100), `line 1: invalid character '\x00' looking for beginning of value; want a JSON object such as a line of decision_log`},
		"a time of 2^63":     {`{"t":9223372036854775808,"params":{}}`, "line 1: t: number 9223372036854775808 is not valid here; want a non-negative integer"},
		"a negative time":    {`{"t":-1,"params":{}}`, "line 1: t is -1, out of range; want ms since the epoch, 1 … 70368744177664"},
		"a time of 1e309":    {`{"t":1e309,"params":{}}`, "line 1: t: number 1e309 is not valid here; want a non-negative integer"},
		"hits of 2^64":       {`{"t":1,"params":{},"hits":18446744073709551616}`, "line 1: hits: number 18446744073709551616 is not valid here; want a non-negative integer"},
		"a deep answer":      {`{"t":1,"params":{},"answer":` + strings.Repeat("[", 100_000) + "}", `line 1: invalid character '[' exceeded max depth; want a JSON object such as a line of decision_log`},
		"a failing reader":   {"", "line 1: read failed"},
	} {
		t.Run(name, func(t *testing.T) {
			in := io.Reader(strings.NewReader(c.text))
			if c.text == "" {
				in = failingReader{}
			}
			r := trace.NewReader(in)
			var err error
			for err == nil {
				_, err = r.Next()
			}
			if err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// What a line has reaches the terminal of an operator only as a short and printable part of
// an error.
func TestReaderErrorsAreShortAndPrintable(t *testing.T) {
	escapes := strings.Repeat(`\u001b[2J`, 50_000)
	for _, text := range []string{
		`{"t":` + strings.Repeat("9", 900_000) + `}`, `{"t":1,"` + escapes + `":1}`, `{"t":1,"op":"` + escapes + `","params":{}}`,
		`{"t":1,"params":{"` + escapes + `":"","` + escapes + `":""}}`, `{"t":1,"params":{"` + escapes + `":1}}`,
	} {
		_, err := trace.NewReader(strings.NewReader(text)).Next()
		if err == nil || len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x1b\n") || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%.50s: %.1000v", text, err)
		}
	}
}

// entries returns n parameters.
func entries(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"p%d":""`, i)
	}
	return strings.Join(list, ",")
}

type failingReader struct{}

func (failingReader) Read(b []byte) (int, error) { return copy(b, "{"), errors.New("read failed") }

func TestReaderAppliesDefaults(t *testing.T) {
	r := trace.NewReader(strings.NewReader("\ufeff \r\n" + `{"t":5,"params":{"a":"b"}}` + "\r\n" + `{"t":6,"sets":[{"hits":0},{"params":{"c":""}}]}`))
	line, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	c := line.Call()
	if value, _ := c.Inputs[0].Params.Get("a"); r.Number() != 2 || c.Op != engine.Take || c.Now != 5 || c.Inputs[0].Hits != 1 || value != "b" || line.Several() {
		t.Errorf("line %d: %+v", r.Number(), c)
	}
	if line, err = r.Next(); err != nil {
		t.Fatal(err)
	}
	c = line.Call()
	if !line.Several() || len(c.Inputs) != 2 || !c.Inputs[0].NoHits || c.Inputs[0].Params.Len() != 0 || c.Inputs[1].Hits != 1 {
		t.Errorf("%+v", c)
	}
	if _, err = r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// FuzzReader checks that no line panics and that every accepted line is a valid
// call.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"t":1,"params":{"uid":"7"},"hits":2}`))
	f.Add([]byte(`{"t":1,"op":"reset","rule":201,"sets":[{"params":{"a":"b"},"limit":{"count":1,"seconds":60,"entries":["k"]}}]}`))
	f.Add([]byte("\n\n{}\n"))
	f.Add([]byte(`{"t":1,"params":{"a":"\ud83d\ude00","a":"1"}} `))
	f.Add([]byte(`{"t":1,"op":"settle","receipt":"r","response":{"a":"b"},"answer":[[{"a":[1]}],{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := trace.NewReader(bytes.NewReader(text))
		for {
			line, err := r.Next()
			if err != nil {
				if len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\x1b\n") {
					t.Errorf("%q: the error is %q", text, err)
				}
				return
			}
			c := line.Call()
			if line.IsOnReceipt() {
				continue
			}
			if c.Now <= 0 || len(c.Inputs) == 0 || c.Op < engine.Take || c.Op > engine.Reset {
				t.Errorf("%q became %+v", text, c)
			}
		}
	})
}
