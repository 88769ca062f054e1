package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
)

// hostileTexts are what clients, files and other instances may put into any text.
var hostileTexts = map[string]string{
	"colors and a title":       "\x1b[31mred\x1b[0m\x1b]0;title\x07",
	"a screen that is cleared": "\x1b[2J\x1b[H\x1bc",
	"control characters of C1": "\u009b2J\u0090q\u009c",
	"further lines":            "x\r\nrule 1 (none): met\nverdict: allow\r",
	"a line and cells":         "a\tb\vc\fd",
	"NUL and DEL":              "a\x00b\x7f\x08c",
	"another direction":        "user\u202egnp.exe\u2066\u200f\u061c",
	"no UTF-8":                 "a\xff\xfe\xc0\xaf\xe2\x82",
	"HTML":                     `</script><img src=x onerror=alert(1)>"'`,
	"a formula":                `=cmd|' /C calc'!A0`,
	"a long text":              strings.Repeat("x\x1b[2J", 20_000),
}

// filled returns a value of a type with the same text in every string.
func filled(of reflect.Type, text string) reflect.Value {
	v := reflect.New(of).Elem()
	switch kind := of.Kind(); {
	case of == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 0).UTC()))
	case kind == reflect.String:
		v.SetString(text)
	case kind == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case kind == reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(filled(of.Elem(), text))
	case kind == reflect.Slice:
		v.Set(reflect.Append(v, filled(of.Elem(), text)))
	case kind == reflect.Map:
		v.Set(reflect.MakeMap(of))
		v.SetMapIndex(filled(of.Key(), text), filled(of.Elem(), text))
	case kind == reflect.Struct:
		for i := range of.NumField() {
			if field := of.Field(i); field.IsExported() {
				v.Field(i).Set(filled(field.Type, text))
			}
		}
	}
	return v
}

// runProgram runs a command, and returns its output and its errors.
func runProgram(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program{args: args, environ: []string{"HOME=" + t.TempDir()}, stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	p.run()
	return out.String(), errs.String()
}

// shownSafely fails unless a terminal shows a text and obeys nothing in it.
func shownSafely(t *testing.T, name, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s: it has %q", name, text[i:min(len(text), i+20)])
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s: it is not UTF-8", name)
	}
}

// No text of an instance, of its rules or of its clients controls the terminal of an operator, or
// adds a line to the output of a command, in whatever field it is, nor does the text of an error.
// In JSON it arrives as it is.
func TestHostileTextsOfInstances(t *testing.T) {
	var answer func() (int, []byte)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, body := answer()
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	admin := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		args string
		of   reflect.Type
		// quotesFiles is true for commands that print the lines of rule files.
		quotesFiles bool
	}{
		{"top", reflect.TypeFor[[]heavy.Row](), false},
		{"why uid=ann", reflect.TypeFor[operations.Why](), false},
		{"trial", reflect.TypeFor[trial.Report](), false},
		{"instances", reflect.TypeFor[[]fleet.Instance](), false},
		{"versions", reflect.TypeFor[[]adminapi.Version](), false},
		{"versions show 1", reflect.TypeFor[adminapi.VersionDetail](), true},
		{"versions diff 1 2", reflect.TypeFor[adminapi.Difference](), false},
		{"exception list", reflect.TypeFor[[]exceptions.Exception](), false},
		{"exception bans", reflect.TypeFor[[]operations.AutomaticBan](), false},
		{"exception remove X", reflect.TypeFor[exceptions.Exception](), false},
		{"reset --rule 1 uid=ann", reflect.TypeFor[operations.ResetDone](), false},
	} {
		lines := func(text string) (out, errs string) {
			answer = func() (int, []byte) {
				body, err := json.Marshal(filled(c.of, text).Interface())
				if err != nil {
					t.Fatal(err)
				}
				return http.StatusOK, body
			}
			return runProgram(t, append(strings.Fields(c.args), "--admin", admin)...)
		}
		harmless, errs := lines("harmless")
		if !strings.Contains(harmless, "harmless") {
			t.Fatalf("%s: %s%s; want the text of the instance", c.args, harmless, errs)
		}
		for name, text := range hostileTexts {
			out, errs := lines(text)
			shownSafely(t, c.args+", "+name, out)
			shownSafely(t, "errors of "+c.args+", "+name, errs)
			if got, want := strings.Count(out, "\n"), strings.Count(harmless, "\n"); got != want && !c.quotesFiles {
				t.Errorf("%s, %s: %d lines; want %d:\n%.600s", c.args, name, got, want, out)
			}
			answer = func() (int, []byte) {
				body, err := json.Marshal(&adminapi.Problem{Status: 422, Title: text, Detail: text})
				if err != nil {
					t.Fatal(err)
				}
				return http.StatusUnprocessableEntity, body
			}
			out, errs = runProgram(t, append(strings.Fields(c.args), "--admin", admin)...)
			shownSafely(t, "refused "+c.args+", "+name, out+errs)
			if errs == "" {
				t.Errorf("%s, %s: no error of a refused question", c.args, name)
			}
		}
	}
}

// The rows of a trial, of rules, of imported limits and of requests without either, are one line
// each, with the texts of their identities.
func TestHostileTextsOfTrials(t *testing.T) {
	for name, text := range hostileTexts {
		one := []whatif.Identity{{Identity: "uid=" + text, Differences: whatif.Differences{NewlyRefused: 3}}}
		report := trial.Report{State: text, Detail: text, Then: text, Found: whatif.Found{Rules: []whatif.Rule{
			{Rule: 201, Name: text, Identities: one}, {Name: "domain." + text, Identities: one}, {Identities: one},
		}}}
		var out strings.Builder
		if err := writeTrial(&out, &report); err != nil {
			t.Fatal(err)
		}
		shownSafely(t, name, out.String())
		rows := strings.Split(out.String(), "\n\n")
		if n := strings.Count(rows[len(rows)-1], "\n"); n != 7 {
			t.Errorf("%s: %d rows; want a head, and two for each of three:\n%.600s", name, n, out.String())
		}
	}
}

// In a document of JSON, each text is the same for programs, and harmless at a terminal.
func TestHostileTextsInJSON(t *testing.T) {
	for name, text := range hostileTexts {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode([]exceptions.Exception{{ID: "X", Note: text, Identity: map[string]string{text: text}}})
		}))
		out, errs := runProgram(t, "exception", "list", "--format", "json", "--admin", strings.TrimPrefix(server.URL, "http://"))
		server.Close()
		shownSafely(t, name, out)
		var list []exceptions.Exception
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].Note != string([]rune(text)) {
			t.Errorf("%s: %v, %s", name, err, errs)
		}
	}
}

// Rule files, limits, rule tests and traces that a stranger wrote control no terminal, whatever
// command reads them.
func TestHostileTextsOfFiles(t *testing.T) {
	for name, text := range hostileTexts {
		dir := t.TempDir()
		quoted := strconv.Quote(text)
		body, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		rules := writeFile(t, filepath.Join(dir, "rules.conf"), "[params]\nuid : header "+text+"\n[rules]\nrule : [count] [uid=+; act="+text+"] [time=60; count=1] [result=2; return=1; name="+text+"]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_msg\":"+string(body)+"}\n")
		valid := writeFile(t, filepath.Join(dir, "valid.conf"), "[rules]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=1]\n[result]\n0 : {\"a\":"+string(body)+"}\n1 : {}\n2 : {}\n")
		limits := writeFile(t, filepath.Join(dir, "limits.yaml"), "domain: "+string(body)+"\ndescriptors:\n- key: "+string(body)+"\n  value: "+string(body)+"\n  rate_limit: { unit: second, requests_per_unit: 1, name: "+string(body)+" }\n")
		trace := writeFile(t, filepath.Join(dir, "trace.jsonl"), `{"t":1800000000000,"door":"koala","params":{"uid":`+string(body)+`},"request_id":`+string(body)+"}\n"+text+"\n")
		test := writeFile(t, filepath.Join(dir, "rules_test.yaml"), "rules: valid.conf\ntests:\n- name: "+quoted+"\n  requests:\n  - params: { uid: "+quoted+" }\n    want: { verdict: deny }\n")
		for _, args := range [][]string{
			{"check", rules},
			{"check", "--format", "json", rules},
			{"check", "--format", "github", rules},
			{"check", valid},
			{"check", text},
			{"explain", "--rules", valid, "uid=" + text, text + "=x"},
			{"explain", "--rules", valid, "--format", "json", "uid=" + text},
			{"explain", "--limits", limits, "--door", "ratelimit", "domain=" + text},
			{"explain", "--rules", rules, "uid=ann"},
			{"replay", "--rules", valid, trace},
			{"replay", "--rules", valid, "--summary", trace},
			{"replay", "--rules", rules, trace},
			{"diff", valid, rules},
			{"diff", rules, valid},
			{"diff", valid, valid, "--trace", trace},
			{"test", test},
			{"test", dir},
			{"import", "envoyproxy-ratelimit", limits},
			{"why", "uid=" + text},
			{text},
			{"top", "--rule", text},
			{"top", "--by", text},
			{"serve", "--" + text},
			{"exception", "add", "--rule", text, "--for", text, "uid=" + text},
			{"reset", "--rule", text, "uid=" + text},
			{"--config", text, "config", "print"},
		} {
			if strings.ContainsRune(strings.Join(args, ""), 0) && len(text) > 100_000 {
				continue
			}
			out, errs := runProgram(t, args...)
			what := strings.Join(args[:min(2, len(args))], " ")
			shownSafely(t, "errors of "+strconv.Quote(what)+", "+name, errs)
			if args[0] != "import" { // whose output is a file
				shownSafely(t, strconv.Quote(what)+", "+name, out)
			}
			if out == "" && errs == "" {
				t.Errorf("%q, %s: neither output nor an error", what, name)
			}
		}
	}
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
