package ruletest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// expectations reads the expectations about an answer: a verdict, or fields.
func (r *reader) expectations(n *yaml.Node) ([]Want, error) {
	w := &wantReader{reader: r}
	if n.Kind == yaml.ScalarNode {
		err := w.verdict(n)
		return w.wants, err
	}
	err := r.object(n, "expect", map[string]field{
		"verdict": w.verdict, "rule": w.rule, "shadow": w.list("shadow", "rules"), "marks": w.list("marks", "marks"),
		"result": w.number("result"), "status": w.number("status"), "limit": w.number("limit"), "remaining": w.number("remaining"),
		"reset": w.span("reset"), "retry": w.span("retry"),
		"headers": w.named(headerField), "params": w.named(paramField), "forward": w.named(forwardField),
	})
	return w.wants, err
}

// wantReader reads the expectations of a step.
type wantReader struct {
	*reader
	wants []Want
}

func (r *wantReader) add(n *yaml.Node, field, value string) {
	r.wants = append(r.wants, Want{n.Line, field, value})
}

func (r *wantReader) verdict(n *yaml.Node) error {
	if !slices.Contains([]string{"allow", "deny", "challenge"}, n.Value) {
		return r.errorf(n, "unknown verdict %q; want allow, deny or challenge", n.Value)
	}
	r.add(n, "verdict", n.Value)
	return nil
}

func (r *wantReader) rule(n *yaml.Node) error {
	var text string
	err := r.text(&text)(n)
	r.add(n, "rule", text)
	return err
}

// list returns a function that reads a list of rules or marks, which may be empty.
func (r *wantReader) list(name, of string) field {
	return func(n *yaml.Node) error {
		var list []string
		err := r.texts(&list, of)(n)
		r.add(n, name, listOr(list))
		return err
	}
}

// number returns a function that reads a number that an answer may not have.
func (r *wantReader) number(name string) field {
	return func(n *yaml.Node) error {
		if n.Value == none {
			r.add(n, name, none)
			return nil
		}
		var v int64
		err := r.reader.number(&v, 0, math.MaxInt64)(n)
		r.add(n, name, strconv.FormatInt(v, 10))
		return err
	}
}

// span returns a function that reads a span of time that an answer may not have.
func (r *wantReader) span(name string) field {
	return func(n *yaml.Node) error {
		if n.Value == none {
			r.add(n, name, none)
			return nil
		}
		d, err := time.ParseDuration(n.Value)
		if err != nil {
			return r.errorf(n, "invalid %s %q; want a time with a unit such as 30s, or none", name, n.Value)
		}
		r.add(n, name, d.String())
		return nil
	}
}

// named returns a function that reads values by name; null stands for an absent one.
func (r *wantReader) named(prefix string) field {
	return func(n *yaml.Node) error {
		return r.pairs(n, "expected values", func(key, value *yaml.Node) error {
			text := absent
			if !isNull(value) {
				if err := r.text(&text)(value); err != nil {
					return err
				}
			}
			r.add(key, prefix+key.Value, text)
			return nil
		})
	}
}

// listOr returns a list in one text, none if it is empty.
func listOr(list []string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}
