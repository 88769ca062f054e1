package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Dump writes every key with its value, as a configuration file would say it,
// and where the value comes from. Secrets are masked.
func (l *Loaded) Dump(w io.Writer) error {
	var lines strings.Builder
	var failed error
	fields(&l.Config, func(key string, field reflect.Value) {
		text, err := inYAML(field.Interface())
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

// inYAML writes one value on one line.
func inYAML(value any) (string, error) {
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
