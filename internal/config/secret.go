package config

import "strings"

// masked replaces a secret in output.
const masked = "xxxxx"

// Secret is a value that is never printed: formatting, logging and encoding it
// yield a mask.
type Secret string

// String returns the mask, or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the secret for %#v.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText returns the mask, for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// RedisURL is the address of a Redis, printed without its password.
type RedisURL string

// String returns the URL with its password masked, even if net/url could not
// parse it because of its list of hosts.
func (u RedisURL) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok || strings.Contains(strings.ToLower(rest), "password=") {
		return Secret(u).String() // it may contain a password anywhere
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return string(u)
	}
	user, password, _ := strings.Cut(rest[:at], ":")
	if password != "" {
		user += ":" + masked
	}
	return scheme + "://" + user + rest[at:]
}

// GoString masks the password for %#v.
func (u RedisURL) GoString() string { return `config.RedisURL("` + u.String() + `")` }

// MarshalText returns the URL with its password masked, for encoders.
func (u RedisURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Reveal returns the URL with its password.
func (u RedisURL) Reveal() string { return string(u) }
