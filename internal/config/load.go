package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// Input is where a configuration comes from, the weakest first.
type Input struct {
	// File is the path of a YAML file; "" for none.
	File string
	// Environ is the environment, each entry as NAME=value.
	Environ []string
	// Flags are the flags that were given, by their keys.
	Flags map[string]any
}

// Loaded is a configuration and where each of its values comes from.
type Loaded struct {
	Config
	// Sources says of every key, in words, who set it.
	Sources map[string]string
}

// layer is what one source says.
type layer struct {
	values  map[string]any
	sources map[string]string
}

// Load puts the layers over the defaults, later ones first: flags, the
// environment, the file. Its error names every fault that it found.
func Load(in Input) (*Loaded, error) {
	file, fileErr := readFile(in.File)
	environ, envErr := readEnviron(in.Environ)
	if err := errors.Join(fileErr, envErr); err != nil {
		return nil, err
	}
	l := &Loaded{Config: Default(), Sources: make(map[string]string)}
	for _, key := range Keys() {
		l.Sources[key] = "default"
	}
	merged := koanf.New(".")
	for _, layer := range []layer{file, environ, readFlags(in.Flags)} {
		if err := merged.Load(confmap.Provider(layer.values, ""), nil); err != nil {
			return nil, fmt.Errorf("merging the configuration: %w", err)
		}
		for key, source := range layer.sources {
			l.Sources[key] = source
		}
	}
	if err := l.decode(merged); err != nil {
		return nil, err
	}
	if err := errors.Join(l.readSecrets(), l.validate()); err != nil {
		return nil, err
	}
	return l, nil
}

func readFlags(flags map[string]any) layer {
	l := layer{values: flags, sources: make(map[string]string)}
	for key := range flags {
		l.sources[key] = "flag " + FlagName(key)
	}
	return l
}

// decode fills the configuration, value by value, so that an error can name
// each wrong one and its source.
func (l *Loaded) decode(merged *koanf.Koanf) error {
	var faults []error
	fields(&l.Config, func(key string, field reflect.Value) {
		if !merged.Exists(key) {
			return
		}
		value := merged.Get(key)
		d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result:     field.Addr().Interface(),
			ZeroFields: true, // a list replaces the default's, it does not mix with it
			DecodeHook: mapstructure.ComposeDecodeHookFunc(unitRequired, noFraction, mapstructure.StringToTimeDurationHookFunc(), oneIsAList),
		})
		if err == nil {
			err = d.Decode(value)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s (%s): %w; want %s", key, l.Sources[key], plain(err, value), kindInWords(field.Type())))
		}
	})
	return errors.Join(faults...)
}

// errUnit refuses a bare number where a duration is due: it would be taken for
// nanoseconds.
var errUnit = errors.New("a duration needs its unit")

func unitRequired(from, to reflect.Type, value any) (any, error) {
	if to == reflect.TypeFor[time.Duration]() && from.Kind() != reflect.String && from != to {
		return nil, errUnit
	}
	return value, nil
}

// errFraction refuses what the decoder would cut to a whole number.
var errFraction = errors.New("a fraction does not do")

func noFraction(from, to reflect.Type, value any) (any, error) {
	if from.Kind() == reflect.Float64 && (to.Kind() == reflect.Int || to.Kind() == reflect.Uint32) {
		return nil, errFraction
	}
	return value, nil
}

// oneIsAList lets a single word stand where a list is due.
func oneIsAList(_, to reflect.Type, value any) (any, error) {
	if word, isText := value.(string); isText && to == reflect.TypeFor[[]string]() {
		return []string{word}, nil
	}
	return value, nil
}

// plain takes the decoder's frame off its error about a value, and says in our
// words that the value is of another kind.
func plain(err error, value any) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			if text := err.Error(); strings.Contains(text, "unconvertible type") || strings.Contains(text, "must be an array or slice") {
				return errors.New(valueInWords(value) + " does not do")
			}
			return errors.New(strings.TrimSpace(strings.TrimPrefix(err.Error(), "''")))
		}
		err = inner
	}
}

// readSecrets puts what the files of secrets hold in its place.
func (l *Loaded) readSecrets() error {
	return errors.Join(
		l.readSecret("redis_password_file", l.RedisPasswordFile, l.token("redis_password", &l.RedisPassword)),
		l.readSecret("redis_sentinel_password_file", l.RedisSentinelPasswordFile, l.token("redis_sentinel_password", &l.RedisSentinelPassword)),
		l.readSecret("koala_token_file", l.KoalaTokenFile, l.token("koala_token", &l.KoalaToken)),
		l.readSecret("admin_token_file", l.AdminTokenFile, l.token("admin_token", &l.AdminToken)),
	)
}

// token makes the function that sets a secret, unless it is set already.
func (l *Loaded) token(key string, target *Secret) func(string) error {
	return func(secret string) error {
		if *target != "" {
			return fmt.Errorf("%s is set too (%s); leave one of them out", key, l.Sources[key])
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
