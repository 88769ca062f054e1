package environ

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read reads the variables. Unknown ones are ignored. Its error names every variable
// with an invalid value.
func Read(environ []string) (*Settings, error) {
	values := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			values[name] = value
		}
	}
	s := &Settings{set: make(map[string]bool)}
	problems := s.fill(reflect.ValueOf(s).Elem(), values)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	s.XDS.boundPauses()
	return s, s.check()
}

// fill sets the fields of a struct.
func (s *Settings) fill(to reflect.Value, values map[string]string) (problems []error) {
	for i := range to.NumField() {
		field, tag := to.Field(i), to.Type().Field(i).Tag
		name := tag.Get("env")
		if name == "" {
			if field.Kind() == reflect.Struct {
				problems = append(problems, s.fill(field, values)...)
			}
			continue
		}
		text, isSet := values[name]
		if s.set[name] = isSet; !isSet {
			text = tag.Get("default")
			if text == "" {
				continue
			}
		}
		if err := parse(field, text); err != nil {
			problems = append(problems, fmt.Errorf("%s is %q; want %w", name, text, err))
		}
	}
	return problems
}

// parse sets a field to the value in text. Its error describes the accepted values.
func parse(field reflect.Value, text string) error {
	var err error
	switch to := field.Addr().Interface().(type) {
	case *string:
		*to = text
	case *bool:
		*to, err = strconv.ParseBool(text)
		return wanted(err, "true or false")
	case *time.Duration:
		*to, err = time.ParseDuration(text)
		return wanted(err, "a duration with a unit, like 250ms or 5s")
	case *float64:
		*to, err = strconv.ParseFloat(text, 64)
		return wanted(err, "a number")
	case *int:
		number, err := strconv.ParseInt(text, 0, strconv.IntSize)
		*to = int(number)
		return wanted(err, "an integer")
	case *uint16:
		number, err := strconv.ParseUint(text, 0, 16)
		*to = uint16(number)
		return wanted(err, "a port, 0 to 65535")
	case *map[string]string:
		*to, err = pairs(text)
		return err
	}
	return nil
}

func wanted(err error, want string) error {
	if err == nil {
		return nil
	}
	return errors.New(want)
}

// pairs reads name:value, separated by commas.
func pairs(text string) (map[string]string, error) {
	m := make(map[string]string)
	if strings.TrimSpace(text) == "" {
		return m, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(item, ":")
		if !ok {
			return nil, errors.New("name:value, separated by commas")
		}
		m[name] = value
	}
	return m, nil
}

// The words of settings that have a fixed list.
var (
	configTypes = []string{"FILE", "GRPC_XDS_SOTW"}
	logLevels   = map[string]string{
		"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warn", "WARNING": "warn",
		"ERROR": "error", "FATAL": "error", "PANIC": "error",
	}
)

// check returns an error that names every variable with a value that is not accepted.
func (s *Settings) check() error {
	var problems []error
	refuse := func(name, format string, v ...any) {
		problems = append(problems, fmt.Errorf(name+" "+format, v...))
	}
	if !slices.Contains(configTypes, s.ConfigType) {
		refuse("CONFIG_TYPE", "is %q; want FILE or GRPC_XDS_SOTW", s.ConfigType)
	}
	switch s.BackendType {
	case "redis", "":
	case "memcache":
		refuse("BACKEND_TYPE", "is memcache, which koalagate does not have; set BACKEND_TYPE=redis and REDIS_URL")
	default:
		refuse("BACKEND_TYPE", "is %q; want redis", s.BackendType)
	}
	if s.UsePrometheus && s.UseStatsd {
		refuse("USE_PROMETHEUS", "and USE_STATSD are both true, and USE_STATSD is so by default; set USE_STATSD=false")
	}
	if s.GRPCUseTLS && (s.GRPCCert == "" || s.GRPCKey == "") {
		refuse("GRPC_SERVER_USE_TLS", "is true, but GRPC_SERVER_TLS_CERT or GRPC_SERVER_TLS_KEY is empty; set both to PEM files")
	}
	if logLevels[strings.ToUpper(s.LogLevel)] == "" {
		refuse("LOG_LEVEL", "is %q; want trace, debug, info, warn, error, fatal or panic", s.LogLevel)
	}
	if s.NearLimitRatio <= 0 || s.NearLimitRatio > 1 || math.IsNaN(s.NearLimitRatio) {
		refuse("NEAR_LIMIT_RATIO", "is %v; want a number above 0 and up to 1", s.NearLimitRatio)
	}
	if s.FlushInterval <= 0 {
		refuse("STATS_FLUSH_INTERVAL", "is %v; want more than 0", s.FlushInterval)
	}
	for _, own := range []struct {
		name, value string
		words       []string
	}{
		{"KOALAGATE_RATELIMIT_WINDOWS", s.Windows, []string{"fixed", "opening", "sliding"}},
		{"KOALAGATE_RATELIMIT_REFUSED", s.Refused, []string{"counted", "free"}},
		{"KOALAGATE_RATELIMIT_QUOTAS", s.Quotas, []string{"all", "groups"}},
	} {
		if !slices.Contains(own.words, own.value) {
			refuse(own.name, "is %q; want %s", own.value, strings.Join(own.words, " or "))
		}
	}
	return errors.Join(problems...)
}
