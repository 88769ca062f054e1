package trace_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/trace"
)

// The end of a log has whole lines alone, in their order, of all files that rotation left.
func TestTail(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		most  int64
		want  string
		whole bool
	}{
		"all of one file":     {map[string]string{"d.jsonl": "1\n2\n3\n"}, 100, "1\n2\n3\n", true},
		"an empty file":       {map[string]string{"d.jsonl": ""}, 100, "", true},
		"a line being added":  {map[string]string{"d.jsonl": "1\n2\n{\"t"}, 100, "1\n2\n", true},
		"the end of one file": {map[string]string{"d.jsonl": "10\n20\n30\n"}, 5, "30\n", false},
		"no line fits":        {map[string]string{"d.jsonl": "10\n20000\n"}, 3, "", false},
		"rotated files": {
			map[string]string{"d.jsonl": "5\n", "d-2026-01-02T00-00-00.000-size.jsonl": "3\n4\n", "d-2026-01-01T00-00-00.000-size.jsonl": "1\n2\n"},
			100, "1\n2\n3\n4\n5\n", true,
		},
		"a part of a rotated file": {map[string]string{"d.jsonl": "5\n", "d-2.jsonl": "3\n4\n", "d-1.jsonl": "1\n"}, 5, "4\n5\n", false},
		"as much as fits":          {map[string]string{"d.jsonl": "5\n", "d-1.jsonl": "3\n4\n"}, 2, "5\n", false},
		"files of other names":     {map[string]string{"d.jsonl": "5\n", "dd-1.jsonl": "1\n", "d-1.txt": "2\n", "other": "3\n"}, 100, "5\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(filepath.Join(dir, "d.jsonl"), link); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{filepath.Join(dir, "d.jsonl"), link} {
				tail, err := trace.OpenTail(path, c.most)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(tail)
				if err != nil {
					t.Error(err)
				}
				if err := tail.Close(); err != nil {
					t.Error(err)
				}
				if string(got) != c.want || tail.Whole != c.whole {
					t.Errorf("%q, whole %v; want %q, %v", got, tail.Whole, c.want, c.whole)
				}
			}
		})
	}
}

func TestTailOfNoFile(t *testing.T) {
	for path, want := range map[string]string{
		t.TempDir():                           "is not a regular file",
		filepath.Join(t.TempDir(), "d.jsonl"): "no such file",
		os.DevNull:                            "is not a regular file",
	} {
		if _, err := trace.OpenTail(path, 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", path, err, want)
		}
	}
}
