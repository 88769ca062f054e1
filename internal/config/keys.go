package config

import (
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/spelling"
)

// Keys returns the names of all options, in the order of Config.
func Keys() []string {
	var keys []string
	fields(new(Config), func(key string, _ reflect.Value) { keys = append(keys, key) })
	return keys
}

// FlagName returns the flag that sets a key: --grpc-addr for grpc_addr.
func FlagName(key string) string { return "--" + strings.ReplaceAll(key, "_", "-") }

// EnvName returns the environment variable that sets a key: KOALAGATE_GRPC_ADDR
// for grpc_addr.
func EnvName(key string) string { return envPrefix + strings.ToUpper(key) }

// visibleFields returns the fields of Config.
var visibleFields = sync.OnceValue(func() []reflect.StructField { return reflect.VisibleFields(reflect.TypeFor[Config]()) })

// fields calls f for each option of c.
func fields(c *Config, f func(key string, field reflect.Value)) {
	v := reflect.ValueOf(c).Elem()
	for _, field := range visibleFields() {
		if key, isOption := field.Tag.Lookup("koanf"); isOption {
			f(key, v.FieldByIndex(field.Index))
		}
	}
}

// typeOf returns the type of a key's value, or nil if the key does not exist.
func typeOf(key string) reflect.Type {
	var t reflect.Type
	fields(new(Config), func(k string, field reflect.Value) {
		if k == key {
			t = field.Type()
		}
	})
	return t
}

// describeType describes the expected values of a type, for errors.
func describeType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration with a unit, like 250ms or 5s"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.String:
		return "a string"
	}
	return "an integer"
}

// describeKey describes the accepted values of a key, for errors about their type: by the
// form of a text, if the key has one.
func describeKey(key string, t reflect.Type) string {
	for _, field := range visibleFields() {
		if field.Tag.Get("koanf") != key {
			continue
		}
		for tag := range strings.SplitSeq(field.Tag.Get("validate"), ",") {
			switch form := simpleTags[tag]; {
			case form == "" || tag == "required":
			case t.Kind() == reflect.Slice:
				return "a list of " + form
			case t.Kind() == reflect.String:
				return form
			}
		}
	}
	return describeType(t)
}

// describeValue names the type of a value that was read, for errors.
func describeValue(value any) string {
	t := reflect.TypeOf(value)
	if t != nil && t.Kind() == reflect.Map {
		return "a mapping"
	}
	if t == nil {
		return "nothing"
	}
	return describeType(t)
}

// unknownKey returns the error text for a key that does not exist.
func unknownKey(key string, known []string) string {
	text := "unknown key " + quoted(key)
	if near := spelling.Suggest(key, known); near != "" {
		text += "; did you mean " + quoted(near) + "?"
	}
	return text
}
