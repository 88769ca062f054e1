package yamldoc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/ruletest"
	"github.com/koalagate/koalagate/internal/yamldoc"
)

// check checks the document of a text.
func check(t *testing.T, text string) error {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return yamldoc.Check(&document, len(text))
}

// nested returns a list of lists of aliases: ten of each level in the next one.
func nested(levels int) string {
	var b strings.Builder
	b.WriteString("- &l0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "- &l%d [%s]\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	shared := "- &r {unit: day, requests_per_unit: 3}\n"
	long := "- &l [" + strings.Repeat("x,", 50_000) + "]\n"
	for name, c := range map[string]struct{ text, want string }{
		"no document":          {"", ""},
		"no aliases":           {strings.Repeat("- [a, {b: c}]\n", 1000), ""},
		"a shared value":       {shared + strings.Repeat("- *r\n", 10_000), ""},
		"a shared list":        {"- &l [" + strings.Repeat("x,", 90) + "]\n" + strings.Repeat("- *l\n", 1000), ""},
		"a merge":              {"a: &a {b: c}\nd: {<<: *a}\n", ""},
		"three levels":         {nested(3), ""},
		"nested lists":         {nested(9), "line 4: the aliases add more than "},
		"many nested lists":    {nested(200), "line 6"}, // sums would exceed int64
		"a long list, often":   {long + strings.Repeat("- *l\n", 100), "2000000 in all"},
		"a value in itself":    {"a: &a {b: *a}\n", "line 1: the value &a contains itself"},
		"a list in itself":     {"- &a [[*a]]\n", "contains itself"},
		"an alias of a scalar": {"- &a x\n- *a\n- *a\n", ""},
	} {
		err := check(t, c.text)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// Files with nested aliases are refused at once by everything that reads YAML. Limits that
// took 42 s and 1.2 GB are the measure.
func TestNestedAliasesAreRefusedAtOnce(t *testing.T) {
	var limits strings.Builder
	limits.WriteString("domain: d\ndescriptors:\n- {key: k, descriptors: &l0 [{key: a}, {key: b}, {key: c}, {key: d}]}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&limits, "- {key: k%d, descriptors: &l%d [", i, i)
		for _, key := range "abcd" {
			fmt.Fprintf(&limits, "{key: %c, descriptors: *l%d}, ", key, i-1)
		}
		limits.WriteString("]}\n")
	}
	settings := "rules:\n" + nested(9)
	cases := "rules: [r.conf]\ncases:\n- name: a\n  steps:\n" + nested(9)
	file := filepath.Join(t.TempDir(), "k.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for name, read := range map[string]func() error{
		"limits":     func() error { _, err := envoylimits.Read("f", []byte(limits.String())); return err },
		"settings":   func() error { _, err := config.Load(config.Input{File: file}); return err },
		"unit tests": func() error { _, err := ruletest.Parse("f", []byte(cases)); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), "the aliases add more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("refused after %v; want less than a tenth", took)
	}
}

// FuzzCheck compares what Check accepts with a walk through all aliases.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"", nested(2), nested(4), "a: &a {b: *a}", "a: &a [1]\nb: {<<: *a}\nc: *a", "- &a x\n- &a [*a, *a]\n- *a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var document yaml.Node
		if yaml.Unmarshal([]byte(text), &document) != nil {
			return
		}
		if yamldoc.Check(&document, len(text)) != nil {
			return
		}
		most, walked := int64(len(text))*(1+yamldoc.PerByte)+2, int64(0)
		var walk func(*yaml.Node)
		walk = func(n *yaml.Node) {
			if n.Kind == yaml.AliasNode {
				n = n.Alias
			}
			if walked++; walked > most {
				return
			}
			for _, part := range n.Content {
				walk(part)
			}
		}
		if walk(&document); walked > most {
			t.Errorf("%d bytes expand to more than %d values", len(text), most)
		}
	})
}
