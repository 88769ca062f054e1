package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/trace"
)

// TestFormatsAreDescribed checks that docs/formats.md lists every field of the
// JSON documents, and no other.
func TestFormatsAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, v := range map[string]any{
		"`koalagate check --format json`":          findings.Document{},
		"`koalagate explain --format json`":        explain.Report{},
		"`koalagate why --format json`":            operations.Why{},
		"`koalagate top --format json`":            heavy.Row{},
		"`koalagate reset --format json`":          operations.ResetDone{},
		"`koalagate exception list --format json`": exceptions.Exception{},
		"`koalagate publish --format json`":        published{},
		"`koalagate versions --format json`":       adminapi.Version{},
		"`koalagate instances --format json`":      fleet.Instance{},
		"A line of a trace":                        trace.Line{},
	} {
		_, section, found := strings.Cut(string(page), "\n## "+title+"\n")
		if !found {
			t.Fatalf("no section about %s", title)
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
			// Repeated structures are described once.
			repeated := strings.HasPrefix(field, "rules[].counted_for[]") || strings.HasPrefix(field, "sets[].")
			if !described[field] && !repeated {
				t.Errorf("%s: field %s is not described", title, field)
			}
			delete(described, field)
		}
		for name := range described {
			t.Errorf("%s: the described field %s does not exist", title, name)
		}
	}
}

// fieldsOf returns the paths of all fields of a document.
func fieldsOf(t reflect.Type, prefix string) []string {
	var list []string
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			list = append(list, fieldsOf(t.Field(i).Type, prefix)...)
			continue
		}
		if !t.Field(i).IsExported() {
			continue // never written
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		list = append(list, prefix+name)
		inner, separator := t.Field(i).Type, "."
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			if inner.Kind() == reflect.Slice {
				separator = "[]."
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			list = append(list, fieldsOf(inner, prefix+name+separator)...)
		}
	}
	return list
}
