package statistics

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mapper turns the names of counts into metrics with labels, by a file of
// statsd_exporter. It knows the fields match, match_type, match_metric_type, name, labels,
// action and scale.
type Mapper struct {
	mappings []mapping
}

// mapping is an element of the file.
type mapping struct {
	Match     string            `yaml:"match"`
	MatchType string            `yaml:"match_type"`
	For       string            `yaml:"match_metric_type"`
	Name      string            `yaml:"name"`
	Labels    map[string]string `yaml:"labels"`
	Action    string            `yaml:"action"`
	Scale     *float64          `yaml:"scale"`

	pattern *regexp.Regexp
}

// defaults returns the mappings without a file: the domain and the first two levels are
// labels, and deeper levels are added up.
func defaults(milliseconds bool) *Mapper {
	scale := 0.001
	if milliseconds {
		scale = 1
	}
	m := &Mapper{mappings: []mapping{
		{
			Match: `ratelimit\.service\.rate_limit\.([^.]*)\.([^.]*)(?:\.([^.]*)(?:\..*)?)?\.(near_limit|over_limit|total_hits|within_limit|shadow_mode)`,
			Name:  "ratelimit_service_rate_limit_$4", Labels: map[string]string{"domain": "$1", "key1": "$2", "key2": "$3"}, MatchType: "regex",
		},
		{Match: "ratelimit.service.call.should_rate_limit.*", Name: "ratelimit_service_should_rate_limit_error", Labels: map[string]string{"err_type": "$1"}},
		{Match: "ratelimit_server.*.total_requests", Name: "ratelimit_service_total_requests", Labels: map[string]string{"grpc_method": "$1"}},
		{Match: "ratelimit_server.*.response_time", Name: "ratelimit_service_response_time_seconds", Labels: map[string]string{"grpc_method": "$1"}, Scale: &scale},
	}}
	for i := range m.mappings {
		_ = m.mappings[i].compile() // the patterns above are valid
	}
	return m
}

// LoadMapper reads a file of statsd_exporter; "" is the default mapping. With
// milliseconds, the default shows response times in milliseconds.
func LoadMapper(path string, milliseconds bool) (*Mapper, error) {
	if path == "" {
		return defaults(milliseconds), nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own
	if err != nil {
		return nil, err
	}
	m, err := readMapper(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func readMapper(text []byte) (*Mapper, error) {
	var file struct {
		Mappings []mapping `yaml:"mappings"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	m := &Mapper{mappings: file.Mappings}
	for i := range m.mappings {
		if err := m.mappings[i].compile(); err != nil {
			return nil, fmt.Errorf("mappings[%d]: %w", i, err)
		}
	}
	return m, nil
}

// compile compiles the pattern. In a glob each * is one part between dots.
func (m *mapping) compile() error {
	pattern := m.Match
	switch m.MatchType {
	case "regex":
	case "", "glob":
		pattern = strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `([^.]*)`)
	default:
		return fmt.Errorf("match_type is %q; want glob or regex", m.MatchType)
	}
	if m.Match == "" || m.Name == "" && m.Action != "drop" {
		return errors.New("match or name is missing")
	}
	compiled, err := regexp.Compile("^(?:" + pattern + ")$")
	m.pattern = compiled
	return err
}

// metric is the metric to which a mapping turns a name.
type metric struct {
	name   string
	names  []string // of the labels, sorted
	values []string
	scale  float64
}

// key identifies the metric with its labels.
func (m *metric) key() string {
	return m.name + "\x00" + strings.Join(m.names, "\x00") + "\x00" + strings.Join(m.values, "\x00")
}

var invalidName = regexp.MustCompile(`[^a-zA-Z0-9_:]`)

// metricOf returns the metric of a name of a kind, counter or observer. ok is false if a
// mapping drops it.
func (m *Mapper) metricOf(name, kind string) (found metric, ok bool) {
	for i := range m.mappings {
		one := &m.mappings[i]
		if one.For != "" && one.For != kind && (one.For != "timer" || kind != "observer") {
			continue
		}
		at := one.pattern.FindStringSubmatchIndex(name)
		if at == nil {
			continue
		}
		if one.Action == "drop" {
			return found, false
		}
		expand := func(template string) string { return string(one.pattern.ExpandString(nil, template, name, at)) }
		found = metric{name: invalidName.ReplaceAllString(expand(one.Name), "_"), scale: 1}
		if one.Scale != nil {
			found.scale = *one.Scale
		}
		found.names = slices.Sorted(maps.Keys(one.Labels))
		for _, label := range found.names {
			found.values = append(found.values, strings.ToValidUTF8(expand(one.Labels[label]), "�"))
		}
		return found, true
	}
	return metric{name: invalidName.ReplaceAllString(name, "_"), scale: 1}, true
}
