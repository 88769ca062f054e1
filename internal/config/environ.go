package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// envPrefix begins the variables that are ours.
const envPrefix = "KOALAGATE_"

// envConfig names the configuration file itself, and so is no key of it.
const envConfig = "KOALAGATE_CONFIG"

// serviceLink matches the variables that Kubernetes and Docker set in every
// container for a service by the name of koalagate. They are not meant for us.
var serviceLink = regexp.MustCompile(`^KOALAGATE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?|NAME|ENV_\w+)$`)

// readEnviron reads the variables that are ours.
func readEnviron(environ []string) (layer, error) {
	l := layer{values: make(map[string]any), sources: make(map[string]string)}
	var faults []error
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig {
			continue
		}
		key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
		kind := kindOf(key)
		if kind == nil {
			if !serviceLink.MatchString(name) {
				faults = append(faults, errors.New("environment: "+unknownKey(name, envNames())))
			}
			continue
		}
		value, err := fromText(text, kind)
		if err != nil {
			faults = append(faults, fmt.Errorf("environment: %s: %w", name, err))
			continue
		}
		l.values[key], l.sources[key] = value, "environment "+name
	}
	return l, errors.Join(faults...)
}

func envNames() []string {
	names := []string{envConfig}
	for _, key := range Keys() {
		names = append(names, EnvName(key))
	}
	return names
}

// fromText makes a value of a variable's text. What stays text (durations,
// names) is checked with the other layers.
func fromText(text string, kind reflect.Type) (any, error) {
	switch kind.Kind() {
	case reflect.Bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not %s", quoted(text), kindInWords(kind))
		}
		return value, nil
	case reflect.Int, reflect.Uint32:
		value, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not %s", quoted(text), kindInWords(kind))
		}
		return value, nil
	case reflect.Float64:
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not %s", quoted(text), kindInWords(kind))
		}
		return value, nil
	case reflect.Slice:
		list := []string{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list, nil
	default:
		return text, nil
	}
}

func quoted(s string) string { return strconv.Quote(s) }
