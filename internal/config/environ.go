package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// envPrefix is the prefix of koalagate's variables.
const envPrefix = "KOALAGATE_"

// envConfig is the variable with the path of the configuration file; it is not
// a key.
const envConfig = "KOALAGATE_CONFIG"

// envAdmin is the variable with the admin address for commands; it is not a key.
const envAdmin = "KOALAGATE_ADMIN"

// serviceLink matches the variables that Kubernetes and Docker set in every
// container for a service named koalagate. They are not settings. Only an unknown
// variable compiles it.
var serviceLink = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^KOALAGATE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?|NAME|ENV_\w+)$`)
})

// readEnviron reads koalagate's variables. Its error names every invalid one.
func readEnviron(environ []string) (layer, error) {
	l := layer{values: make(map[string]any), sources: make(map[string]string)}
	var problems []error
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig || name == envAdmin {
			continue
		}
		key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
		t := typeOf(key)
		if t == nil {
			if !serviceLink().MatchString(name) {
				problems = append(problems, errors.New("environment: "+unknownKey(name, envNames())))
			}
			continue
		}
		value, err := parseText(text, t)
		if err != nil {
			problems = append(problems, fmt.Errorf("environment: %s: %w", name, err))
			continue
		}
		l.values[key], l.sources[key] = value, "environment "+name
	}
	return l, errors.Join(problems...)
}

func envNames() []string {
	names := []string{envConfig}
	for _, key := range Keys() {
		names = append(names, EnvName(key))
	}
	return names
}

// parseText converts the text of a variable to a value of type t. Values that
// remain text (durations, names) are checked together with the other layers.
func parseText(text string, t reflect.Type) (any, error) {
	switch t.Kind() {
	case reflect.Bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not %s", quoted(text), describeType(t))
		}
		return value, nil
	case reflect.Int, reflect.Uint32:
		value, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not %s", quoted(text), describeType(t))
		}
		return value, nil
	case reflect.Float64:
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not %s", quoted(text), describeType(t))
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
