package config_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/config"
)

// page lists all settings. It is generated from the example, whose keys and defaults are
// the code, and from the ranges that Config validates.
const page = "../../docs/configuration.md"

var update = flag.Bool("update", false, "write docs/configuration.md")

const pageHead = `# Settings

<!-- Written by: go test ./internal/config -run Page -update -->

All settings with their defaults, and the values that are accepted in parentheses.
[koalagate.example.yaml](../koalagate.example.yaml) is the same as a file to edit; a file
needs only the keys that differ.

A key has three spellings: ` + "`grpc_addr` in the file that `--config` names, `KOALAGATE_GRPC_ADDR`" + `
in the environment, with lists separated by commas, and for the most common ones a flag,
` + "`--grpc-addr`" + `. Flags override the environment, which overrides the file. An unknown key is
an error. A change of a setting needs a restart; rule files, certificates and modes do not.

Durations have a unit, as in ` + "`1m30s`" + `; sizes are in bytes. To see the values in effect, with
their sources, and to find an error before a restart:

` + "```sh\nkoalagate config print --config koalagate.example.yaml\n```\n"

var (
	heading = regexp.MustCompile(`^# --- (.+?) -+$`)
	setting = regexp.MustCompile(`^([a-z_]+):(?: (.*))?$`)
)

// TestPageOfSettings compares the page with what the example and the code make of it.
func TestPageOfSettings(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	want := pageOf(string(text))
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/configuration.md is not up to date; run go test ./internal/config -run Page -update\n%s", diff)
	}
	for _, key := range config.Keys() {
		if !strings.Contains(string(got), "**`"+key+"`**") {
			t.Errorf("docs/configuration.md lacks %s", key)
		}
	}
}

// pageOf returns the page for an example: a section per heading, and in it the settings
// under a common comment together.
func pageOf(text string) string {
	b := new(strings.Builder)
	b.WriteString(pageHead)
	_, text, _ = strings.Cut(text, "\n# --- ")
	for block := range strings.SplitSeq("# --- "+text, "\n\n") {
		var comment, settings []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			switch m := setting.FindStringSubmatch(line); {
			case heading.MatchString(line):
				fmt.Fprintf(b, "\n## %s\n", heading.FindStringSubmatch(line)[1])
			case m != nil:
				settings = append(settings, settingText(m[1], m[2]))
			case strings.HasPrefix(line, "# ") && len(settings) > 0: // the comment of the next one
				writeSettings(b, settings, comment)
				settings, comment = nil, []string{line[2:]}
			case strings.HasPrefix(line, "# "):
				comment = append(comment, line[2:])
			case strings.HasPrefix(line, "  - "):
				settings[len(settings)-1] += " `" + line[4:] + "`"
			}
		}
		if len(settings) > 0 {
			writeSettings(b, settings, comment)
		}
	}
	return b.String()
}

func writeSettings(b *strings.Builder, settings, comment []string) {
	fmt.Fprintf(b, "\n%s<br>\n%s\n", strings.Join(settings, "<br>\n"), strings.Join(comment, "\n"))
}

// settingText returns a setting with its default and the values that it accepts.
func settingText(key, value string) string {
	out := "**`" + key + "`**"
	if value = strings.Trim(value, `"`); value != "" && value != "[]" {
		out += " `" + value + "`"
	}
	if values := valuesOf(key); values != "" {
		out += " (" + values + ")"
	}
	return out
}

// valuesOf returns the values that Config accepts for a key, "" if the comment says it.
func valuesOf(key string) string {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if field.Tag.Get("koanf") != key {
			continue
		}
		bounds := make(map[string]string)
		for rule := range strings.SplitSeq(field.Tag.Get("validate"), ",") {
			name, value, _ := strings.Cut(rule, "=")
			bounds[name] = value
		}
		if words := bounds["oneof"]; words != "" {
			return strings.ReplaceAll(words, " ", ", ")
		}
		isNumber := field.Type.Kind() <= reflect.Float64
		if isNumber && bounds["max"] != "" && bounds["min"] != "" {
			return bounds["min"] + " to " + bounds["max"]
		}
		return ""
	}
	return ""
}
