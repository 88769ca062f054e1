package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/trace"
)

// TestFormatsAreDescribed holds docs/formats.md to the documents that programs
// read: it names every field of them, and no other.
func TestFormatsAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, v := range map[string]any{
		"`koalagate check --format json`":   findings.Document{},
		"`koalagate explain --format json`": explanation{},
		"A line of a trace":                 trace.Line{},
	} {
		_, section, found := strings.Cut(string(page), "\n## "+title+"\n")
		if !found {
			t.Fatalf("there is no section about %s", title)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		described := make(map[string]bool)
		for _, row := range strings.Split(section, "\n") {
			if !strings.HasPrefix(row, "| `") {
				continue
			}
			cell, _, _ := strings.Cut(row[2:], "|")
			for _, name := range strings.Fields(cell) {
				described[strings.Trim(name, "`")] = true
			}
		}
		for _, field := range fieldsOf(reflect.TypeOf(v), "") {
			// Their parameters are described where they stand first.
			again := strings.HasPrefix(field, "rules[].counted_for[]") || strings.HasPrefix(field, "sets[].")
			if !described[field] && !again {
				t.Errorf("%s: the field %s is not described", title, field)
			}
			delete(described, field)
		}
		for name := range described {
			t.Errorf("%s: there is no field %s", title, name)
		}
	}
}

// fieldsOf are the paths of all fields of a document.
func fieldsOf(t reflect.Type, prefix string) []string {
	var list []string
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			list = append(list, fieldsOf(t.Field(i).Type, prefix)...)
			continue
		}
		if !t.Field(i).IsExported() {
			continue // it is never written
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		list = append(list, prefix+name)
		inner, behind := t.Field(i).Type, "."
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			if inner.Kind() == reflect.Slice {
				behind = "[]."
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			list = append(list, fieldsOf(inner, prefix+name+behind)...)
		}
	}
	return list
}
