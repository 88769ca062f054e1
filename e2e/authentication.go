package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// Password is the password of all users of gateways.
const Password = "secret"

// passwordHash is the bcrypt hash of Password with the lowest cost.
const passwordHash = "$2a$04$9exPgygYcAFVt5gvoP1ZJO0ZzRP2DI41RAfpShPWFy3NvMvkkrpMe"

// Authenticate makes gateways started from now on authenticate their clients. All lines
// that the samples have as comments are then in force. At least one user is needed.
func (s *Stage) Authenticate(users ...string) { s.users = users }

// As returns the header line by which a user authenticates at a gateway: with a token at
// Envoy, with Password at all others.
func (g *Gateway) As(user string) string {
	if g.Name == "envoy" {
		return "Authorization: Bearer " + token(user)
	}
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+Password))
}

// commentedOut matches a line of a sample that is configuration: no blank follows its #.
var commentedOut = regexp.MustCompile(`(?m)^([ \t]*)#([^ #\n])`)

// uncommented returns a sample with the lines in force that are configuration in comments.
func uncommented(text string) string { return commentedOut.ReplaceAllString(text, "$1$2") }

// withAuthentication returns a sample whose comments are in force, with the stage's users.
func (s *Stage) withAuthentication(name, text string) (string, error) {
	text = uncommented(text)
	var file string // of the users, in the sample
	var users strings.Builder
	switch kind, _, _ := strings.Cut(strings.TrimPrefix(name, "deploy/"), "/"); kind {
	case "envoy":
		file = "/etc/envoy/jwks.json"
		fmt.Fprintf(&users, `{"keys": [{"kty": "oct", "alg": "HS256", "kid": "1", "k": %q}]}`, encoded([]byte(Password)))
	case "nginx":
		file = "/etc/nginx/users"
		for _, user := range s.users {
			fmt.Fprintf(&users, "%s:{PLAIN}%s\n", user, Password)
		}
	case "caddy":
		file = "/etc/caddy/users"
		for _, user := range s.users {
			fmt.Fprintf(&users, "%s %s\n", user, passwordHash)
		}
	case "traefik":
		file = "/etc/traefik/users"
		for _, user := range s.users {
			fmt.Fprintf(&users, "%s:%s\n", user, passwordHash)
		}
	case "haproxy": // the users are in the sample itself
		for _, user := range s.users {
			fmt.Fprintf(&users, "    user %s insecure-password %s\n", user, Password)
		}
		return replaceOnce(name, text, "    user ann password HASH\n    user bob password HASH\n", users.String())
	}
	own := s.fileName("users-%d", len(s.programs))
	if err := os.WriteFile(own, []byte(users.String()), 0o600); err != nil {
		return "", err
	}
	return replaceOnce(name, text, file, own)
}

// token returns a JSON Web Token of a user, valid for an hour.
func token(user string) string {
	claims, err := json.Marshal(map[string]any{"iss": "https://accounts.example", "aud": "app", "sub": user, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		return err.Error() // no token: the gateway refuses it
	}
	signed := encoded([]byte(`{"alg": "HS256", "kid": "1"}`)) + "." + encoded(claims)
	mac := hmac.New(sha256.New, []byte(Password))
	mac.Write([]byte(signed))
	return signed + "." + encoded(mac.Sum(nil))
}

func encoded(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }
