package ruletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/spelling"
	"github.com/koalagate/koalagate/rules"
)

// Token is a token that a step sends. The run signs it.
type Token struct {
	Line int
	Name string // of a line of [tokens]
	// Claims are its claims as JSON values; nil removes one that the line requires. Times
	// are claimTime.
	Claims map[string]any
	// Outcome is how its verification ends.
	Outcome rules.JWTOutcome
}

// claimTime is a time in a claim: a span since the step, or a date and time in the zone of the
// rule set.
type claimTime struct {
	since time.Duration
	at    string // "" for since
	line  int
}

// timeClaims are the claims that hold times, in seconds since 1970 (RFC 7519, section 4.1).
var timeClaims = []string{"exp", "nbf", "iat"}

// tokenOutcomes are the outcomes that a step may ask for.
var tokenOutcomes = []rules.JWTOutcome{rules.JWTValid, rules.JWTExpired, rules.JWTInvalid, rules.JWTUnavailable}

// tokens reads one token, or a list of tokens of different lines.
func (r *fileReader) tokens(to *[]Token) field {
	return func(n *yaml.Node) error {
		read := func(n *yaml.Node) error {
			t, err := r.token(n)
			if err == nil && slices.ContainsFunc(*to, func(other Token) bool { return other.Name == t.Name }) {
				err = r.errorf(n, "the step has two tokens %s; send a second one in headers", t.Name)
			}
			*to = append(*to, t)
			return err
		}
		if n.Kind == yaml.SequenceNode {
			return r.list(n, "tokens", read)
		}
		return read(n)
	}
}

func (r *fileReader) token(n *yaml.Node) (Token, error) {
	t := Token{Line: n.Line, Outcome: rules.JWTValid, Claims: map[string]any{}}
	err := r.object(n, "a token", map[string]field{"name": r.text(&t.Name), "claims": r.claims(t.Claims), "outcome": r.outcome(&t.Outcome)})
	if err != nil {
		return t, err
	}
	switch _, hasEnd := t.Claims["exp"]; {
	case t.Name == "":
		return t, r.errorf(n, "the token has no name; want a name of [tokens]")
	case hasEnd && t.Outcome == rules.JWTExpired:
		return t, r.errorf(n, "outcome: expired sets exp; remove exp from the claims")
	}
	return t, nil
}

func (r *fileReader) outcome(to *rules.JWTOutcome) field {
	return func(n *yaml.Node) error {
		words := make([]string, len(tokenOutcomes))
		for i, o := range tokenOutcomes {
			words[i] = o.String()
		}
		i := slices.Index(words, n.Value)
		if i < 0 {
			return r.errorf(n, "unknown outcome %q; want %s", n.Value, strings.Join(words, ", "))
		}
		*to = tokenOutcomes[i]
		return nil
	}
}

func (r *fileReader) claims(to map[string]any) field {
	return func(n *yaml.Node) error {
		return r.pairs(n, "claims", func(key, value *yaml.Node) (err error) {
			if slices.Contains(timeClaims, key.Value) && value.Kind == yaml.ScalarNode && value.Tag != "!!int" && value.Tag != "!!float" && !isNull(value) {
				to[key.Value] = newClaimTime(value)
				return nil
			}
			to[key.Value], err = r.json(value)
			return err
		})
	}
}

// newClaimTime reads a span or a time. A time is known to be valid once the zone is known.
func newClaimTime(n *yaml.Node) claimTime {
	if since, err := time.ParseDuration(n.Value); err == nil {
		return claimTime{since: since, line: n.Line}
	}
	return claimTime{at: n.Value, line: n.Line}
}

// seconds returns the time in seconds since 1970.
func (c *claimTime) seconds(now time.Time, zone *time.Location) (int64, error) {
	if c.at == "" {
		return now.Add(c.since).Unix(), nil
	}
	at, err := rules.ParseTime(c.at, zone)
	if err != nil {
		return 0, fmt.Errorf("invalid time %q of a claim: %w; or want a span since the step such as 10m or -1h, or seconds since 1970", c.at, err)
	}
	return at.Unix(), nil
}

// json returns the JSON value that a node stands for.
func (r *reader) json(n *yaml.Node) (value any, err error) {
	n = resolve(n)
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any)
		err = r.pairs(n, "a claim", func(key, value *yaml.Node) (err error) {
			object[key.Value], err = r.json(value)
			return err
		})
		return object, err
	case yaml.SequenceNode:
		list := []any{}
		err = r.list(n, "values", func(n *yaml.Node) error {
			element, err := r.json(n)
			list = append(list, element)
			return err
		})
		return list, err
	}
	switch n.Tag {
	case "!!null":
		return nil, nil //nolint:nilnil // the JSON value null
	case "!!int", "!!float", "!!bool":
		if err = n.Decode(&value); err != nil || !isFinite(value) {
			return nil, r.errorf(n, "invalid value %q of a claim; want a JSON value", n.Value)
		}
		return value, nil
	}
	return n.Value, nil
}

// isFinite reports whether JSON can hold a number.
func isFinite(value any) bool {
	f, isFloat := value.(float64)
	return !isFloat || f-f == 0
}

func hasHeader(list []string, name string) bool {
	return slices.ContainsFunc(list, func(header string) bool { return strings.EqualFold(header, name) })
}

// checkNames returns an error for each token and each header of [forward] that a step names and
// the rule set lacks.
func (f *File) checkNames(set *rules.Set) error {
	var tokens, headers []string
	for _, t := range set.Tokens {
		tokens = append(tokens, t.Name)
	}
	for _, forward := range set.Forwards {
		headers = append(headers, forward.Header)
	}
	var problems []error
	report := func(line int, what, name string, known []string, section string) {
		hint := "declare it in " + section
		if near := spelling.Suggest(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		problems = append(problems, fmt.Errorf("%s:%d: unknown %s %q; %s", f.Path, line, what, name, hint))
	}
	for i := range f.Cases {
		for j := range f.Cases[i].Steps {
			s := &f.Cases[i].Steps[j]
			for _, t := range s.Tokens {
				at := slices.Index(tokens, t.Name)
				if at < 0 {
					report(t.Line, "token", t.Name, tokens, "[tokens]")
				} else if !set.Tokens[at].IsUsed() {
					problems = append(problems, fmt.Errorf("%s:%d: no rule and no parameter reads the token %s; remove it from the step", f.Path, t.Line, t.Name))
				}
			}
			for _, w := range s.Wants {
				if name, found := strings.CutPrefix(w.Field, forwardField); found && !hasHeader(headers, name) {
					report(w.Line, "header of [forward]", name, headers, "[forward]")
				}
			}
		}
	}
	return errors.Join(problems...)
}
