package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/koalagate/koalagate/internal/doorname"
)

// unixScheme begins the address of a unix socket.
const unixScheme = "unix:"

// newValidator knows the tags that are ours beside the library's.
func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("koanf") })
	for tag, valid := range map[string]func(string) bool{"listen": isListen, "redisurl": isRedisURL, "filemode": isFileMode, "mode": isMode, "failpolicy": isFailPolicy} {
		// The error is that of an empty tag, which these are not.
		_ = v.RegisterValidation(tag, func(f validator.FieldLevel) bool { return valid(f.Field().String()) })
	}
	return v
}

// isListen tells whether s is host:port with a numeric port, or unix:/path.
func isListen(s string) bool {
	if path, unix := strings.CutPrefix(s, unixScheme); unix {
		return strings.HasPrefix(path, "/")
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isFileMode tells whether s is the permissions of a file, as chmod takes them.
func isFileMode(s string) bool {
	mode, err := strconv.ParseUint(s, 8, 16)
	return err == nil && mode <= 0o777
}

// isMode tells whether s is a door and its mode.
func isMode(s string) bool {
	door, mode, _ := strings.Cut(s, "=")
	return doorname.IsServed(door) && slices.Contains([]string{"enforce", "observe", "off"}, mode)
}

// isFailPolicy tells whether s is a door and what holds there while Redis is
// away.
func isFailPolicy(s string) bool {
	door, policy, _ := strings.Cut(s, "=")
	return doorname.IsServed(door) && slices.Contains([]string{"rescue", "allow", "deny", "gateway"}, policy)
}

// isRedisURL tells whether s begins as the URL of a Redis does. What follows is
// the store's to judge.
func isRedisURL(s string) bool {
	scheme, rest, _ := strings.Cut(s, "://")
	switch scheme {
	case "redis", "rediss", "unix", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		return rest != ""
	}
	return false
}

// validate checks the bounds and words each fault for a person.
func (l *Loaded) validate() error {
	err := newValidator().Struct(&l.Config)
	var list validator.ValidationErrors
	if err != nil && !errors.As(err, &list) {
		return err
	}
	faults := []error{l.doorTwice("modes", l.Modes), l.doorTwice("fail_policies", l.FailPolicies)}
	for _, fault := range list {
		key, _, _ := strings.Cut(fault.Field(), "[") // a list's element is named key[i]
		faults = append(faults, fmt.Errorf("%s (%s): %s; want %s", key, l.Sources[key], shown(fault), wanted(fault)))
	}
	return errors.Join(faults...)
}

// doorTwice tells of a door that a list says two things of: which of them was
// meant, nobody can tell.
func (l *Loaded) doorTwice(key string, list []string) error {
	seen := make(map[string]string)
	for _, text := range list {
		door, _, _ := strings.Cut(text, "=")
		if before, twice := seen[door]; twice {
			return fmt.Errorf("%s (%s): %s and %s are of one door; leave one of them out", key, l.Sources[key], quoted(before), quoted(text))
		}
		seen[door] = text
	}
	return nil
}

// shown is the value as it may be printed.
func shown(fault validator.FieldError) string {
	switch v := fault.Value().(type) {
	case Secret:
		return "the secret does not do"
	case RedisURL:
		if !strings.Contains(v.Reveal(), "://") { // all of it would be masked
			return "it does not begin as a URL does"
		}
		return quoted(v.String()) + " does not do"
	case string:
		return quoted(v) + " does not do"
	default:
		return fmt.Sprintf("%v does not do", v)
	}
}

// otherwise says what the simplest tags ask for.
var otherwise = map[string]string{
	"required":         "something",
	"excluded_without": "nothing: there is no Redis to use it for; set redis too",
}

// wanted says what the tag that failed asks for.
func wanted(fault validator.FieldError) string {
	switch fault.Tag() {
	case "listen":
		return "host:port, like 127.0.0.1:9191, or unix:/path"
	case "filemode":
		return "octal digits between quotes, like \"0660\""
	case "required_with":
		return "a file: grpc_tls_cert and grpc_tls_key go together, and grpc_tls_client_ca with both"
	case "mode":
		return "door=mode: one of " + strings.Join(doorname.Served(), ", ") + ", and enforce, observe or off"
	case "failpolicy":
		return "door=policy: one of " + strings.Join(doorname.Served(), ", ") + ", and rescue, allow, deny or gateway"
	case "gt", "lte":
		return "a number above 0 and up to 1"
	case "redisurl":
		return "redis://host:port/db, unix:///path, redis-sentinel://host:port,…/master or redis-cluster://host:port,…; rediss… for TLS"
	case "timezone":
		return "the IANA name of a time zone, like Asia/Shanghai or UTC"
	case "oneof":
		return "one of " + strings.ReplaceAll(fault.Param(), " ", ", ")
	case "ip|cidr":
		return "an address or a block, like 10.0.0.1 or 10.0.0.0/8"
	case "hostname_rfc1123":
		return "a host name, without a port"
	case "min":
		return "at least " + fault.Param() + unit(fault.Kind())
	case "max":
		return "at most " + fault.Param() + unit(fault.Kind())
	case "ltefield":
		return "at most drain_timeout"
	case "excludesall":
		return "no blanks and no braces"
	case "printascii":
		return "printable ASCII alone"
	}
	return cmp.Or(otherwise[fault.Tag()], fault.Tag())
}

// unit is what a bound counts.
func unit(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return " characters"
	case reflect.Slice:
		return " entries"
	default:
		return ""
	}
}
