package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Dump writes every key with its value, in the format of a configuration file,
// and the source of the value as a comment. Secrets are masked.
func (l *Loaded) Dump(w io.Writer) error {
	var lines strings.Builder
	var failed error
	fields(&l.Config, func(key string, field reflect.Value) {
		text, err := yamlValue(field.Interface())
		if err != nil && failed == nil {
			failed = fmt.Errorf("writing %s: %w", key, err)
		}
		fmt.Fprintf(&lines, "%-42s # %s\n", key+": "+text, l.Sources[key])
	})
	if failed != nil {
		return failed
	}
	_, err := io.WriteString(w, lines.String())
	return err
}

// yamlValue returns value as YAML on one line.
func yamlValue(value any) (string, error) {
	switch v := value.(type) {
	case time.Duration:
		value = v.String()
	case fmt.Stringer: // secrets
		value = v.String()
	}
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		return "", err
	}
	node.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&node)
	return strings.TrimSpace(string(text)), err
}
