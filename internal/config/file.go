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
)

// maxFile bounds a configuration file, in bytes.
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
		return l, fmt.Errorf("%s: the file is not UTF-8; save it as UTF-8; is it GBK or UTF-16 now?", path)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		hint := ""
		if bytes.HasPrefix(text, []byte("\t")) || bytes.Contains(text, []byte("\n\t")) {
			hint = "; begin lines with blanks, since YAML takes no tabs there"
		}
		return l, fmt.Errorf("%s: %w%s", path, err, hint)
	}
	if len(document.Content) == 0 {
		return l, nil // an empty file says nothing
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return l, fmt.Errorf("%s:%d: want keys and values, as in `grpc_addr: 127.0.0.1:9191`", path, top.Line)
	}
	var faults []error
	known := Keys()
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		switch _, twice := l.values[key.Value]; {
		case !slices.Contains(known, key.Value):
			faults = append(faults, fmt.Errorf("%s: %s", at, unknownKey(key.Value, known)))
		case twice:
			faults = append(faults, fmt.Errorf("%s: %s is set twice; leave one of them out", at, quoted(key.Value)))
		default:
			var v any
			if err := value.Decode(&v); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", at, key.Value, err))
			}
			l.values[key.Value], l.sources[key.Value] = v, "file "+at
		}
	}
	return l, errors.Join(faults...)
}

// readBounded reads a regular file of a sensible size.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path) //nolint:gosec // the path is the operator's own
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
