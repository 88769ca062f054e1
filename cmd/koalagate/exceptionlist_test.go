package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/exceptions"
)

// listOf writes a list of exceptions of users from rule 201, each an hour long, one in a line:
// `listof NUMBER FILE [ENTRY]`. The entry has no identity.
func listOf(ts *testscript.TestScript, _ bool, args []string) {
	number, err := strconv.Atoi(args[0])
	ts.Check(err)
	wrong := 0
	if len(args) > 2 {
		wrong, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	var text strings.Builder
	for i := 1; i <= number; i++ {
		x := exceptions.Exception{Rule: 201, Identity: map[string]string{"uid": "u" + strconv.Itoa(i)}, What: exceptions.Allow, Until: time.Now().Add(time.Hour)}
		if i == wrong {
			x.Identity = nil
		}
		line, err := json.Marshal(x)
		ts.Check(err)
		text.WriteString(",\n")
		text.Write(line)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte("["+strings.TrimPrefix(text.String(), ",")+"\n]\n"), 0o600))
}

// Each entry of a list has its line, and errors name both.
func TestParseList(t *testing.T) {
	list, err := parseList([]byte("[\n{\"rule\": 1},\n\n  {\"rule\": \"posts\",\n \"what\": \"deny\"}\n, {\"rule\": 3}]\n"))
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, line := range []int{2, 4, 6} {
		if e := list[i]; e.line != line || e.number != i+1 || e.Rule != []adminapi.RuleRef{"1", "posts", "3"}[i] {
			t.Errorf("entry %d: rule %s at line %d; want line %d", e.number, e.Rule, e.line, line)
		}
	}
	for text, want := range map[string]string{
		"":                            "EOF",
		"{}":                          "want a list",
		"[{},\n{\"rule\": 2.5}]":      "entry 2 (line 2): a rule is 2.5; want its number or its name",
		"[{},\n{\"count\": 1":         "entry 2 (line 2)",
		"[{}\n":                       "after entry 1",
		"[{}]\n\n{}":                  "line 3: unexpected text",
		"[{\"until\": \"tomorrow\"}]": "entry 1 (line 1)",
	} {
		if _, err := parseList([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

// A list is divided by the number of its entries and by their size.
func TestBatchesOf(t *testing.T) {
	list := make([]listEntry, 2*batchLength+1)
	list[batchLength+5].size = batchBytes
	var lengths []int
	for _, batch := range batchesOf(list) {
		lengths = append(lengths, len(batch))
	}
	if want := []int{batchLength, 6, batchLength - 5}; len(lengths) != 3 || lengths[0] != want[0] || lengths[1] != want[1] || lengths[2] != want[2] {
		t.Errorf("batches of %v; want %v", lengths, want)
	}
}
