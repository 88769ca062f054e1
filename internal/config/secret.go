package config

import "strings"

// masked is what is shown in place of a secret.
const masked = "xxxxx"

// Secret is a value that is never printed: formatting, logging and dumping it
// show a mask.
type Secret string

// String is the mask, or "" where there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString keeps %#v from telling the secret.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText is what encoders get: the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// RedisURL is the address of a Redis, printed without its password.
type RedisURL string

// String is the URL with its password masked, even where it cannot be read as
// one: a list of hosts is no URL to most readers.
func (u RedisURL) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok || strings.Contains(strings.ToLower(rest), "password=") {
		return Secret(u).String() // whatever it is, it may hold a password
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

// GoString keeps %#v from telling the password.
func (u RedisURL) GoString() string { return `config.RedisURL("` + u.String() + `")` }

// MarshalText is what encoders get: the URL with its password masked.
func (u RedisURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Reveal is the URL with its password.
func (u RedisURL) Reveal() string { return string(u) }
