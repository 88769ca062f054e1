package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/yamldoc"
)

// maxFile is the maximum size of a configuration file, in bytes.
const maxFile = 1 << 20

// readFile reads a YAML file. Its errors name the line.
func readFile(path string) (layer, error) {
	l := layer{values: make(map[string]any), sources: make(map[string]string)}
	if path == "" {
		return l, nil
	}
	text, err := readBounded(path)
	if err != nil {
		return l, fmt.Errorf("reading the configuration: %w", err)
	}
	if !utf8.Valid(text) {
		return l, fmt.Errorf("%s: the file is not UTF-8 (GBK or UTF-16?); save it as UTF-8", path)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		hint := "; check this line and its neighbors: every key begins in the first column"
		if bytes.HasPrefix(text, []byte("\t")) || bytes.Contains(text, []byte("\n\t")) {
			hint = "; indent lines with spaces: YAML does not accept tabs there"
		}
		return l, fmt.Errorf("%s: %w%s", path, err, hint)
	}
	if err := yamldoc.Check(&document, len(text)); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) == 0 {
		return l, nil // an empty file sets nothing
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return l, fmt.Errorf("%s:%d: want keys and values, as in `grpc_addr: 127.0.0.1:9191`", path, top.Line)
	}
	var problems []error
	known := Keys()
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		switch _, duplicate := l.values[key.Value]; {
		case !slices.Contains(known, key.Value):
			problems = append(problems, fmt.Errorf("%s: %s", at, unknownKey(key.Value, known)))
		case duplicate:
			problems = append(problems, fmt.Errorf("%s: %s is set twice; remove one of them", at, quoted(key.Value)))
		default:
			var v any
			if err := value.Decode(&v); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s: %w", at, key.Value, err))
			}
			l.values[key.Value], l.sources[key.Value] = v, "file "+at
		}
	}
	return l, errors.Join(problems...)
}

// readBounded reads a regular file of at most maxFile bytes.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path) //nolint:gosec // the operator provides the path
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, nil
}
