package envoylimits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/yamldoc"
)

// maxDepth is the largest number of nested values in a file.
const maxDepth = 1000

// Read reads the first document of a YAML file. Its error begins with name and is in the
// words of envoyproxy/ratelimit where that has words for it.
func Read(name string, text []byte) (*Config, error) {
	c := &Config{Name: name}
	if err := read(c, text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// read reads one file. It walks the nodes instead of decoding them, since a repeated key is
// no error in envoyproxy/ratelimit: the last value counts.
func read(c *Config, text []byte) error {
	var document yaml.Node
	switch err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&document); {
	case errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0:
		return nil // Compile reports the missing domain
	case err != nil:
		return fmt.Errorf("error loading config file: %w", err)
	}
	if err := yamldoc.Check(&document, len(text)); err != nil {
		return fmt.Errorf("error loading config file: %w", err)
	}
	if isNull(document.Content[0]) {
		return nil
	}
	return readMapping(document.Content[0], 0, map[string]*field{
		"domain":      {text: &c.Domain},
		"descriptors": {list: readDescriptors(&c.Descriptors, 1)},
	})
}

// field is the destination of a value, according to its type.
type field struct {
	text    *string
	flag    *bool
	number  *uint32
	mapping func(*yaml.Node) error
	list    func([]*yaml.Node) error
}

// known are the keys that may stand in any mapping.
var known = map[string]bool{
	"domain": true, "key": true, "value": true, "descriptors": true, "rate_limit": true, "unit": true,
	"requests_per_unit": true, "unlimited": true, "shadow_mode": true, "quota_mode": true, "name": true, "replaces": true,
	"detailed_metric": true, "value_to_metric": true, "share_threshold": true, "metadata": true,
}

// readMapping reads a mapping. A known key without a field has no effect there, but its
// value must be well-formed.
func readMapping(n *yaml.Node, depth int, fields map[string]*field) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return wrongType(n, "a mapping")
	}
	if err := checkDepth(n, depth); err != nil {
		return err
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case key.Tag == "!!merge":
			if err := readMerge(value, depth+1, fields); err != nil {
				return err
			}
			continue
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return fmt.Errorf("line %d: config error, key is not of type string: %s", key.Line, key.Value)
		case !known[key.Value]:
			return fmt.Errorf("config error, unknown key '%s'", key.Value)
		}
		if err := readValue(key.Value, value, depth+1, fields[key.Value]); err != nil {
			return err
		}
	}
	return nil
}

// readMerge reads the mappings that a merge key names.
func readMerge(n *yaml.Node, depth int, fields map[string]*field) error {
	if n.Kind != yaml.SequenceNode {
		return readMapping(n, depth, fields)
	}
	for i := len(n.Content) - 1; i >= 0; i-- { // an earlier one overrides a later one
		if err := readMapping(n.Content[i], depth+1, fields); err != nil {
			return err
		}
	}
	return nil
}

// readValue reads the value of a known key into f, which is nil for no destination.
func readValue(key string, n *yaml.Node, depth int, f *field) error {
	switch {
	case key == "metadata":
		if f == nil || f.mapping == nil || isNull(n) {
			return nil
		}
		return f.mapping(n)
	case isNull(n):
		return nil
	case n.Kind == yaml.SequenceNode:
		if err := checkElements(n, depth); err != nil || f == nil {
			return err
		}
		if f.list == nil {
			return wrongType(n, "no list for "+key)
		}
		return f.list(n.Content)
	case n.Kind == yaml.MappingNode:
		if f != nil && f.mapping != nil {
			return f.mapping(n)
		}
		if err := readMapping(n, depth, nil); err != nil || f == nil {
			return err
		}
		return wrongType(n, "no mapping for "+key)
	}
	return scalar(key, n, f)
}

// checkElements checks that every element of a list is a mapping with known keys.
func checkElements(n *yaml.Node, depth int) error {
	if err := checkDepth(n, depth); err != nil {
		return err
	}
	for _, e := range n.Content {
		e = resolve(e)
		if e.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: config error, yaml file contains list of type other than map: %s", e.Line, e.Value)
		}
	}
	return nil
}

// checkDepth bounds the nesting, which aliases can make deeper than the file.
func checkDepth(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("line %d: error loading config file: more than %d levels", n.Line, maxDepth)
	}
	return nil
}

// scalar reads a value that is neither a mapping nor a list.
func scalar(key string, n *yaml.Node, f *field) error {
	switch tag := n.ShortTag(); {
	case tag == "!!float" || tag == "!!binary" || tag == "!!int" && isLarge(n.Value):
		return fmt.Errorf("line %d: error checking config: %s is %s; want a string, an integer or a boolean", n.Line, key, n.Value)
	case f == nil:
	case f.text != nil:
		*f.text = n.Value
	case f.flag != nil:
		value := new(bool)
		if err := n.Decode(value); err != nil || n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			return wrongType(n, "true or false for "+key)
		}
		*f.flag = *value
	case f.number != nil:
		number, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "+"), 0, 32)
		if err != nil || tag != "!!int" {
			return wrongType(n, "an integer from 0 to 4294967295 for "+key)
		}
		*f.number = uint32(number)
	case f.list != nil || f.mapping != nil:
		return wrongType(n, "no scalar for "+key)
	}
	return nil
}

// isLarge reports whether an integer needs more than 64 bits with its sign.
func isLarge(text string) bool {
	_, err := strconv.ParseInt(text, 0, 64)
	return errors.Is(err, strconv.ErrRange)
}

// readDescriptors returns the reader of a list of descriptors.
func readDescriptors(list *[]Descriptor, depth int) func([]*yaml.Node) error {
	return func(nodes []*yaml.Node) error {
		*list = make([]Descriptor, len(nodes))
		for i, n := range nodes {
			if err := readDescriptor(n, &(*list)[i], depth+1); err != nil {
				return err
			}
		}
		return nil
	}
}

func readDescriptor(n *yaml.Node, d *Descriptor, depth int) error {
	return readMapping(n, depth, map[string]*field{
		"key": {text: &d.Key}, "value": {text: &d.Value},
		"shadow_mode": {flag: &d.Shadow}, "quota_mode": {flag: &d.Quota}, "detailed_metric": {flag: &d.Detailed},
		"value_to_metric": {flag: &d.ValueToMetric}, "share_threshold": {flag: &d.Share},
		"descriptors": {list: readDescriptors(&d.Descriptors, depth+1)},
		"rate_limit":  {mapping: func(n *yaml.Node) error { d.Policy = new(Policy); return readPolicy(n, d.Policy, depth+1) }},
		"metadata":    {mapping: func(n *yaml.Node) error { return readMetadata(n, &d.Metadata) }},
	})
}

func readPolicy(n *yaml.Node, p *Policy, depth int) error {
	return readMapping(n, depth, map[string]*field{
		"unit": {text: &p.Unit}, "requests_per_unit": {number: &p.Requests}, "unlimited": {flag: &p.Unlimited}, "name": {text: &p.Name},
		"replaces": {list: func(nodes []*yaml.Node) error {
			p.Replaces = make([]string, len(nodes))
			for i, e := range nodes {
				if err := readMapping(e, depth+1, map[string]*field{"name": {text: &p.Replaces[i]}}); err != nil {
					return err
				}
			}
			return nil
		}},
	})
}

// resolve returns the node that an alias refers to.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func wrongType(n *yaml.Node, want string) error {
	return fmt.Errorf("line %d: error loading config file: want %s", n.Line, want)
}
