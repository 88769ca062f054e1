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
	"github.com/koalagate/koalagate/internal/printable"
)

// unixScheme is the prefix of Unix socket addresses.
const unixScheme = "unix:"

// newValidator returns a validator with koalagate's own tags registered.
func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("koanf") })
	for tag, valid := range map[string]func(string) bool{"listen": IsListenAddress, "redisurl": isRedisURL, "filemode": isFileMode, "mode": isMode, "failpolicy": isFailPolicy} {
		// RegisterValidation fails only for an empty tag.
		_ = v.RegisterValidation(tag, func(f validator.FieldLevel) bool { return valid(f.Field().String()) })
	}
	return v
}

// IsListenAddress reports whether s is host:port with a numeric port, or unix:/path.
func IsListenAddress(s string) bool {
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

// isFileMode reports whether s is the octal permissions of a file, as in chmod.
func isFileMode(s string) bool {
	mode, err := strconv.ParseUint(s, 8, 16)
	return err == nil && mode <= 0o777
}

// isMode reports whether s has the form door=mode.
func isMode(s string) bool {
	door, mode, _ := strings.Cut(s, "=")
	return doorname.IsServed(door) && slices.Contains([]string{"enforce", "observe", "off"}, mode)
}

// isFailPolicy reports whether s has the form door=policy.
func isFailPolicy(s string) bool {
	door, policy, _ := strings.Cut(s, "=")
	return doorname.IsServed(door) && slices.Contains([]string{"rescue", "allow", "deny", "gateway"}, policy)
}

// isRedisURL reports whether s has the scheme of a Redis URL. The store validates
// the rest.
func isRedisURL(s string) bool {
	scheme, rest, _ := strings.Cut(s, "://")
	switch scheme {
	case "redis", "rediss", "unix", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		return rest != ""
	}
	return false
}

// validate checks the values. Its error names each invalid key, its source, its
// value and the accepted values.
func (l *Loaded) validate() error {
	err := newValidator().Struct(&l.Config)
	var list validator.ValidationErrors
	if err != nil && !errors.As(err, &list) {
		return err
	}
	problems := []error{l.rejectMixedRules(), l.rejectForgetfulKey(), l.rejectUnsignedModes(), l.rejectSharedAddress(), l.rejectDuplicateDoor("modes", l.Modes), l.rejectDuplicateDoor("fail_policies", l.FailPolicies)}
	for _, fault := range list {
		key, _, _ := strings.Cut(fault.Field(), "[") // a list's element is named key[i]
		problems = append(problems, fmt.Errorf("%s (%s): %s; want %s", key, l.Sources[key], describeInvalid(fault), describeAccepted(fault)))
	}
	return errors.Join(problems...)
}

// PublishedRules is the entry of rules that stands for the published rules in Redis.
const PublishedRules = "redis:"

// IsPublished reports whether the rules are the published ones in Redis.
func (c *Config) IsPublished() bool { return slices.Contains(c.Rules, PublishedRules) }

// rejectMixedRules returns an error if published rules are mixed with files, the files of
// a trial included, or no Redis holds them.
func (l *Loaded) rejectMixedRules() error {
	switch {
	case slices.Contains(l.Trial, PublishedRules):
		return fmt.Errorf("trial (%s): redis:; want rule files", l.Sources["trial"])
	case !l.IsPublished():
		return nil
	case len(l.Trial) > 0:
		return fmt.Errorf("trial (%s): files, although rules are published ones; want rule files for both", l.Sources["trial"])
	case len(l.Rules) > 1:
		return fmt.Errorf("rules (%s): redis: and files; want one of them", l.Sources["rules"])
	case l.Redis == "":
		return fmt.Errorf("rules (%s): redis: without a Redis; set redis too", l.Sources["rules"])
	}
	return nil
}

// rejectForgetfulKey returns an error if an instance could not remember which signed versions
// it has seen.
func (l *Loaded) rejectForgetfulKey() error {
	if l.PublishPublicKey == "" || l.StateDir != "" || !l.IsPublished() {
		return nil
	}
	return fmt.Errorf("publish_public_key (%s): without a state_dir, who can write to Redis could bring an older signed version back at the next start; set state_dir to a folder that this instance alone can write to", l.Sources["publish_public_key"])
}

// rejectUnsignedModes returns an error if modes are to be read from a Redis that is absent, or
// not trusted.
func (l *Loaded) rejectUnsignedModes() error {
	switch {
	case !l.FollowModes:
		return nil
	case l.Redis == "":
		return fmt.Errorf("follow_modes (%s): true without a Redis; set redis too", l.Sources["follow_modes"])
	case l.PublishPublicKey != "":
		return fmt.Errorf("follow_modes (%s): true with publish_public_key, although modes have no signatures; remove one of them, and change the modes of each instance with its token", l.Sources["follow_modes"])
	}
	return nil
}

// FollowsModes reports whether this instance follows the modes of doors in Redis.
func (c *Config) FollowsModes() bool {
	return c.Redis != "" && c.PublishPublicKey == "" && (c.FollowModes || c.IsPublished())
}

// rejectSharedAddress returns an error if two listeners have one address. Port 0 is
// another port for each.
func (l *Loaded) rejectSharedAddress() error {
	keys := make(map[string]string)
	for _, one := range []struct{ key, address string }{{"grpc_addr", l.GRPCAddr}, {"http_addr", l.HTTPAddr}, {"admin_addr", l.AdminAddr}} {
		if before, used := keys[one.address]; used && !strings.HasSuffix(one.address, ":0") {
			return fmt.Errorf("%s (%s): %s is the address of %s, too; use another one", one.key, l.Sources[one.key], quoted(one.address), before)
		}
		keys[one.address] = one.key
	}
	return nil
}

// rejectDuplicateDoor returns an error if the list contains a door twice.
func (l *Loaded) rejectDuplicateDoor(key string, list []string) error {
	seen := make(map[string]string)
	for _, text := range list {
		door, _, _ := strings.Cut(text, "=")
		if before, duplicate := seen[door]; duplicate {
			return fmt.Errorf("%s (%s): %s and %s are for the same door; remove one of them", key, l.Sources[key], quoted(before), quoted(text))
		}
		seen[door] = text
	}
	return nil
}

// describeInvalid returns the invalid value with secrets masked, for errors.
func describeInvalid(fault validator.FieldError) string {
	switch v := fault.Value().(type) {
	case Secret:
		return "invalid secret"
	case RedisURL:
		if !strings.Contains(v.Reveal(), "://") { // all of it would be masked
			return "invalid URL scheme"
		}
		return "invalid value " + quoted(v.String())
	case string:
		return "invalid value " + quoted(v)
	default:
		return fmt.Sprintf("invalid value %v", v)
	}
}

// simpleTags describes the values that tags without parameters accept.
var simpleTags = map[string]string{
	"required":         "a value",
	"excluded_without": "no value without a Redis; set redis too",
	"listen":           "host:port, like 127.0.0.1:9191, or unix:/path",
	"filemode":         "octal digits in quotes, like \"0660\"",
	"mode":             "door=mode: one of " + strings.Join(doorname.Served(), ", ") + ", and enforce, observe or off",
	"failpolicy":       "door=policy: one of " + strings.Join(doorname.Served(), ", ") + ", and rescue, allow, deny or gateway",
}

// describeAccepted describes the values that the failed tag accepts.
func describeAccepted(fault validator.FieldError) string {
	switch fault.Tag() {
	case "required_with":
		address, _, _ := strings.Cut(fault.Field(), "_")
		return "a file: " + address + "_tls_cert and " + address + "_tls_key require each other, and " + address + "_tls_client_ca requires both"
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
		return "at least " + counted(fault)
	case "max":
		return "at most " + counted(fault)
	case "ltefield":
		return "at most drain_timeout"
	case "gtefield":
		return "at least " + keyOf(fault.Param())
	case "excludesall":
		return "no spaces and no braces"
	case "printascii":
		return "printable ASCII only"
	}
	return cmp.Or(simpleTags[fault.Tag()], fault.Tag())
}

// keyOf returns the key of a field of Config.
func keyOf(field string) string {
	f, _ := reflect.TypeFor[Config]().FieldByName(field)
	return f.Tag.Get("koanf")
}

// counted returns the limit that a value violates. The limit of a length has its unit.
func counted(fault validator.FieldError) string {
	n, err := strconv.Atoi(fault.Param())
	switch {
	case err == nil && fault.Kind() == reflect.String:
		return printable.Count(n, "character")
	case err == nil && fault.Kind() == reflect.Slice:
		return printable.Count(n, "entry")
	}
	return fault.Param()
}
