package record

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.txt")
	for text, want := range map[string]map[string]string{
		"":                         {},
		"one: 1\ntwo, more: 2.5 b": {"one": "1", "two, more": "2.5 b"},
		"one: 1\nnothing\n":        nil,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(file); !maps.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
