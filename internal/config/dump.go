package config

import (
	"crypto/sha256"
	"encoding/hex"
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

// Hash returns a hash of all settings without secrets, as 16 hexadecimal digits.
// Instances with the same settings have the same hash.
func (c *Config) Hash() string {
	all := sha256.New()
	fields(c, func(key string, field reflect.Value) {
		value := field.Interface()
		if text, ok := value.(fmt.Stringer); ok { // secrets
			value = text.String()
		}
		fmt.Fprintf(all, "%s: %#v\n", key, value)
	})
	return hex.EncodeToString(all.Sum(nil)[:8])
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
