package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// Input contains the sources of a configuration, lowest precedence first.
type Input struct {
	// Base replaces defaults, by key.
	Base map[string]Based
	// File is the path of a YAML file; "" for none.
	File string
	// Environ is the environment, each entry as NAME=value.
	Environ []string
	// Flags are the flags on the command line, by their keys.
	Flags map[string]any
	// Caller reads the settings for a command that calls the instance: of the files with secrets
	// only the admin tokens', and those only if the user may read them (Loaded.Unread).
	Caller bool
}

// Based is a value of Input.Base.
type Based struct {
	Value  any
	Source string
	// IsSet reports whether a variable set the value; Load then rejects a different
	// value from another source.
	IsSet bool
}

// Loaded is a configuration with the source of each value.
type Loaded struct {
	Config
	// Sources maps every key to a description of its source, such as
	// SourceDefault or "file k.yaml:2".
	Sources map[string]string
	// Unread is why a Caller could not read the file of a token; nil if it could.
	Unread error
}

// SourceDefault is the source of a value that nobody has set.
const SourceDefault = "default"

// layer contains the settings of one source.
type layer struct {
	values  map[string]any
	sources map[string]string
}

// Load applies file, environment and flags to the defaults; later ones take
// precedence. Its error names every problem that it found.
func Load(in Input) (*Loaded, error) {
	file, fileErr := readFile(in.File)
	environ, envErr := readEnviron(in.Environ)
	if err := errors.Join(fileErr, envErr); err != nil {
		return nil, err
	}
	l := &Loaded{Config: Default(), Sources: make(map[string]string)}
	for _, key := range Keys() {
		l.Sources[key] = SourceDefault
	}
	merged := koanf.New(".")
	for _, layer := range []layer{readBase(in.Base), file, environ, readFlags(in.Flags)} {
		if err := merged.Load(confmap.Provider(layer.values, ""), nil); err != nil {
			return nil, fmt.Errorf("merging the configuration: %w", err)
		}
		for key, source := range layer.sources {
			l.Sources[key] = source
		}
	}
	if err := errors.Join(l.rejectContradictions(in.Base, merged), l.decode(merged)); err != nil {
		return nil, err
	}
	if err := errors.Join(l.readSecrets(in.Caller), l.validate()); err != nil {
		return nil, err
	}
	return l, nil
}

func readBase(base map[string]Based) layer {
	l := layer{values: make(map[string]any), sources: make(map[string]string)}
	for key, b := range base {
		l.values[key], l.sources[key] = b.Value, b.Source
	}
	return l
}

// rejectContradictions returns an error that names each value of base that was chosen,
// and that another source contradicts.
func (l *Loaded) rejectContradictions(base map[string]Based, merged *koanf.Koanf) error {
	var problems []error
	for _, key := range Keys() {
		b, exists := base[key]
		if !exists || !b.IsSet || l.Sources[key] == b.Source || fmt.Sprint(merged.Get(key)) == fmt.Sprint(b.Value) {
			continue
		}
		problems = append(problems, fmt.Errorf("%s: %s and %s contain different values; remove one of them", key, b.Source, l.Sources[key]))
	}
	return errors.Join(problems...)
}

func readFlags(flags map[string]any) layer {
	l := layer{values: flags, sources: make(map[string]string)}
	for key := range flags {
		l.sources[key] = "flag " + FlagName(key)
	}
	return l
}

// decode sets the fields one by one, so that its error can name each invalid
// value and its source.
func (l *Loaded) decode(merged *koanf.Koanf) error {
	var problems []error
	fields(&l.Config, func(key string, field reflect.Value) {
		if !merged.Exists(key) {
			return
		}
		value := merged.Get(key)
		d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result:     field.Addr().Interface(),
			ZeroFields: true, // a list replaces the default rather than extending it
			DecodeHook: mapstructure.ComposeDecodeHookFunc(requireUnit, rejectFraction, mapstructure.StringToTimeDurationHookFunc(), wrapInList),
		})
		if err == nil {
			err = d.Decode(value)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s (%s): %w; want %s", key, l.Sources[key], decodeError(err, value), describeKey(key, field.Type())))
		}
	})
	return errors.Join(problems...)
}

// errUnit rejects a bare number for a duration: the decoder would take it as
// nanoseconds.
var errUnit = errors.New("missing unit")

func requireUnit(from, to reflect.Type, value any) (any, error) {
	if to == reflect.TypeFor[time.Duration]() && from.Kind() != reflect.String && from != to {
		return nil, errUnit
	}
	return value, nil
}

// errFraction rejects a fraction, which the decoder would truncate.
var errFraction = errors.New("got a fraction")

func rejectFraction(from, to reflect.Type, value any) (any, error) {
	if from.Kind() == reflect.Float64 && (to.Kind() == reflect.Int || to.Kind() == reflect.Uint32) {
		return nil, errFraction
	}
	return value, nil
}

// wrapInList accepts a single word for a list of one.
func wrapInList(_, to reflect.Type, value any) (any, error) {
	if word, isText := value.(string); isText && to == reflect.TypeFor[[]string]() {
		return []string{word}, nil
	}
	return value, nil
}

// decodeError returns the innermost error of the decoder, or an error that names
// the type of value if the type is wrong.
func decodeError(err error, value any) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			if text := err.Error(); strings.Contains(text, "unconvertible type") || strings.Contains(text, "must be an array or slice") {
				return errors.New("got " + describeValue(value))
			}
			return errors.New(strings.TrimSpace(strings.TrimPrefix(err.Error(), "''")))
		}
		err = inner
	}
}

// readSecrets reads the files of secrets into their fields, for a caller the admin tokens alone.
func (l *Loaded) readSecrets(caller bool) error {
	admin := errors.Join(
		l.readSecret("admin_token_file", l.AdminTokenFile, l.setSecret("admin_token", &l.AdminToken)),
		l.readSecret("admin_read_token_file", l.AdminReadTokenFile, l.setSecret("admin_read_token", &l.AdminReadToken)),
	)
	if caller {
		if errors.Is(admin, fs.ErrPermission) {
			l.Unread, admin = admin, nil
		}
		return admin
	}
	return errors.Join(
		admin,
		l.readSecret("redis_password_file", l.RedisPasswordFile, l.setSecret("redis_password", &l.RedisPassword)),
		l.readSecret("redis_sentinel_password_file", l.RedisSentinelPasswordFile, l.setSecret("redis_sentinel_password", &l.RedisSentinelPassword)),
		l.readSecret("koala_token_file", l.KoalaTokenFile, l.setSecret("koala_token", &l.KoalaToken)),
	)
}

// setSecret returns a function that sets target, or fails if it is already set.
func (l *Loaded) setSecret(key string, target *Secret) func(string) error {
	return func(secret string) error {
		if *target != "" {
			return fmt.Errorf("%s is also set (%s); remove one of them", key, l.Sources[key])
		}
		*target, l.Sources[key] = Secret(secret), key+"_file"
		return nil
	}
}

func (l *Loaded) readSecret(key, path string, set func(string) error) error {
	if path == "" {
		return nil
	}
	text, err := readBounded(path)
	if err != nil {
		return fmt.Errorf("%s (%s): %w", key, l.Sources[key], err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return fmt.Errorf("%s (%s): %s is empty; want the secret on one line", key, l.Sources[key], path)
	}
	if err := set(secret); err != nil {
		return fmt.Errorf("%s (%s): %w", key, l.Sources[key], err)
	}
	return nil
}
