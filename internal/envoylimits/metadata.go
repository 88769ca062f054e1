package envoylimits

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// booleans are the words that are booleans in YAML 1.1, which envoyproxy/ratelimit reads,
// and text in YAML 1.2.
var booleans = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false", "OFF": "false",
}

// readMetadata reads metadata, whose contents are free.
func readMetadata(n *yaml.Node, to *map[string]any) error {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode && c.Tag != "!!merge" {
			c.Tag = "!!str"
		} else {
			readAsOlder(c)
		}
	}
	var free any
	if err := n.Decode(&free); err != nil {
		return fmt.Errorf("error loading config file: %w", err)
	}
	converted, isMapping := plain(free).(map[string]any)
	if !isMapping {
		return wrongType(n, "a mapping for metadata")
	}
	*to = converted
	return nil
}

// readAsOlder gives scalars the types of YAML 1.1, in which a date is text here.
func readAsOlder(n *yaml.Node) {
	for _, c := range n.Content {
		readAsOlder(c)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	tag := n.ShortTag()
	value, isBoolean := booleans[n.Value]
	switch {
	case tag == "!!timestamp":
		n.Tag = "!!str"
	case isBoolean && (tag == "!!bool" || tag == "!!str" && n.Style == 0):
		n.Tag, n.Value = "!!bool", value
	}
}

// plain returns a decoded value with keys that are strings.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = plain(value)
		}
	case map[any]any:
		texts := make(map[string]any, len(v))
		for key, value := range v {
			texts[fmt.Sprint(key)] = plain(value)
		}
		return texts
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}
