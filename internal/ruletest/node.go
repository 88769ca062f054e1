package ruletest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/spelling"
)

// reader reads the YAML nodes of one file. Its errors name the file and the line.
type reader struct{ path string }

// field reads the value of a key.
type field func(*yaml.Node) error

func (r *reader) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", r.path, n.Line, fmt.Sprintf(format, args...))
}

// resolve returns the node that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// object reads a mapping whose keys are all in fields. What names it in errors.
func (r *reader) object(n *yaml.Node, what string, fields map[string]field) error {
	known := slices.Sorted(maps.Keys(fields))
	return r.pairs(n, what, func(key, value *yaml.Node) error {
		read := fields[key.Value]
		if read == nil {
			hint := "want " + strings.Join(known, ", ")
			if near := spelling.Suggest(key.Value, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return r.errorf(key, "unknown key %q of %s; %s", key.Value, what, hint)
		}
		return read(value)
	})
}

// pairs calls read for each key of a mapping. Keys are unique.
func (r *reader) pairs(n *yaml.Node, what string, read func(key, value *yaml.Node) error) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return r.errorf(n, "want %s as keys with values", what)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case key.Kind != yaml.ScalarNode:
			return r.errorf(key, "a key of %s is not a word", what)
		case seen[key.Value]:
			return r.errorf(key, "the key %q of %s occurs twice", key.Value, what)
		}
		seen[key.Value] = true
		if err := read(key, value); err != nil {
			return err
		}
	}
	return nil
}

// list calls read for each element of a list.
func (r *reader) list(n *yaml.Node, what string, read func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return r.errorf(n, "want a list of %s", what)
	}
	for _, element := range n.Content {
		if err := read(resolve(element)); err != nil {
			return err
		}
	}
	return nil
}

// text returns a function that reads a scalar into to.
func (r *reader) text(to *string) field {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || isNull(n) {
			return r.errorf(n, "want one value")
		}
		*to = n.Value
		return nil
	}
}

// texts returns a function that reads a scalar, or a list of scalars, into to.
func (r *reader) texts(to *[]string, what string) field {
	return func(n *yaml.Node) error {
		if n.Kind == yaml.ScalarNode {
			var one string
			err := r.text(&one)(n)
			*to = []string{one}
			return err
		}
		*to = []string{}
		return r.list(n, what, func(n *yaml.Node) error {
			var one string
			err := r.text(&one)(n)
			*to = append(*to, one)
			return err
		})
	}
}

// number returns a function that reads an integer into to.
func (r *reader) number(to *int64, least, most int64) field {
	return func(n *yaml.Node) error {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			return r.errorf(n, "invalid number %q; want %d … %d", n.Value, least, most)
		}
		*to = v
		return nil
	}
}

// isNull reports whether the value of a key is missing, null or ~.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
