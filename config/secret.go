package config

import "net/url"

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

// String is the URL with its password masked.
func (u RedisURL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil {
		return masked // whatever it is, it may hold a password
	}
	query := parsed.Query()
	if query.Has("password") {
		query.Set("password", masked)
		parsed.RawQuery = query.Encode()
	}
	return parsed.Redacted()
}

// GoString keeps %#v from telling the password.
func (u RedisURL) GoString() string { return `config.RedisURL("` + u.String() + `")` }

// MarshalText is what encoders get: the URL with its password masked.
func (u RedisURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Reveal is the URL with its password.
func (u RedisURL) Reveal() string { return string(u) }

// withPassword is the URL with this password in place of its own.
func (u RedisURL) withPassword(password string) (RedisURL, error) {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return "", err
	}
	parsed.User = url.UserPassword(parsed.User.Username(), password)
	return RedisURL(parsed.String()), nil
}
