package envoylimits

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Rules returns a rule file that decides as the limits of the set. It does so for
// descriptors that have the keys of the configuration in its order, each once and no
// others, with values that are not empty. problems has a line for each limit that no rule
// can express; the file contains it as a comment.
func (s *Set) Rules() (text string, problems []string) {
	w := &ruleWriter{labels: make(map[string]bool)}
	w.b.WriteString(fileHead)
	for _, name := range slices.Sorted(maps.Keys(s.domains)) {
		w.domain, w.keys = name, make(map[string]bool)
		collect(s.domains[name], w.keys)
		w.level(s.domains[name], nil)
	}
	w.b.WriteString(fileTail)
	return w.b.String(), w.problems
}

const fileHead = `# Limits of envoyproxy/ratelimit as rules. Hits above a limit are recorded (overdraft=1),
# and windows are those of the clock (from=epoch), as there. These requests differ: empty
# values, which no rule matches; a key that a descriptor names twice; keys that no limit
# names, which rules ignore; keys in another order; and 0 hits at exactly the limit, which
# rules refuse.

[rules]
`

const fileTail = `
[result]
0 : {"Err_no":0, "Err_msg":"", "Str_reason":"Allow"}
1 : {"Err_no":0, "Err_msg":"", "Str_reason":"Allow"}
2 : {"Err_no":429, "Err_msg":"too many requests", "Str_reason":"Deny", "Http_status":429}
`

// collect adds the keys of all levels below a node.
func collect(n *node, keys map[string]bool) {
	for _, child := range n.children {
		keys[child.source.Key] = true
		collect(child, keys)
	}
}

// ruleWriter writes a rule for each limit.
type ruleWriter struct {
	b        strings.Builder
	problems []string
	labels   map[string]bool // the names of rules
	number   int             // of the last rule
	domain   string
	keys     map[string]bool // of the domain
}

// part is one level of a path with its siblings.
type part struct {
	source *Descriptor
	level  *node // that contains it
}

// level writes the rules of the limits below a node.
func (w *ruleWriter) level(n *node, path []part) {
	for _, key := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[key]
		below := append(slices.Clone(path), part{child.source, n})
		if child.limit != nil {
			w.limit(child.limit, below)
		}
		w.level(child, below)
	}
}

// limit writes the rule of a limit, or why there is none.
func (w *ruleWriter) limit(l *Limit, path []part) {
	if reason := w.obstacle(l, path); reason != "" {
		problem := fmt.Sprintf("%s: %s", l.Path, reason)
		w.problems = append(w.problems, problem)
		fmt.Fprintf(&w.b, "\n# not converted: %q\n", problem)
		return
	}
	w.number++
	var words strings.Builder
	if l.Shadow {
		words.WriteString("; shadow=1")
	}
	if label().MatchString(l.Name) && !w.labels[l.Name] {
		w.labels[l.Name] = true
		words.WriteString("; name=" + l.Name)
	}
	method, thresholds := "direct", "" // a limit of 0 refuses everything
	if l.Requests > 0 {
		method, thresholds = "count", fmt.Sprintf("time=%d; from=epoch; count=%d; overdraft=1", l.Unit.Seconds(), l.Requests)
	}
	fmt.Fprintf(&w.b, "\n# %q\nrule : [%s] [%s] [%s] [result=2; return=%d%s]\n",
		l.Path, method, w.conditions(path), thresholds, firstNumber+w.number, words.String())
}

// firstNumber is the number before the first rule's.
const firstNumber = 1000

// The forms of the names of rules and of parameters. Only the conversion to rules needs them.
var (
	label     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`) })
	parameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]*$`) })
)

// obstacle returns why no rule can express a limit, "" if one can.
func (w *ruleWriter) obstacle(l *Limit, path []part) string {
	switch {
	case l.Unlimited:
		return "it is unlimited; requests without a rule pass, but it may replace other limits"
	case len(l.Replaces) > 0:
		return "it replaces other limits; rules do not depend on each other"
	case l.Quota:
		return "it is a quota; rules refuse each for itself"
	}
	seen := map[string]bool{"domain": true, "door": true}
	for _, p := range path {
		d := p.source
		switch {
		case seen[d.Key]:
			return fmt.Sprintf("the key %q occurs twice, or is a parameter of its own", d.Key)
		case !parameter().MatchString(d.Key):
			return fmt.Sprintf("the key %q is no name of a parameter", d.Key)
		case strings.Contains(d.Value, "*"):
			return "its value is a pattern"
		case strings.TrimSpace(d.Value) != d.Value || strings.ContainsAny(d.Value, "\r\n"):
			return "its value has spaces at an end, or several lines"
		case d.Value == "" && p.level.hasPattern(d.Key):
			return "a pattern stands before it on its level"
		}
		seen[d.Key] = true
	}
	for key := range w.keys {
		if !seen[key] && !parameter().MatchString(key) {
			return fmt.Sprintf("the key %q of another limit is no name of a parameter, so that no rule can exclude it", key)
		}
	}
	if w.domain == "" || strings.ContainsAny(w.domain, "\r\n") {
		return "its domain has several lines"
	}
	return ""
}

// hasPattern reports whether a child of n is a pattern that may match a value of a key.
func (n *node) hasPattern(key string) bool {
	return slices.ContainsFunc(n.patterns, func(p pattern) bool {
		begin := string(p.parts[0])
		return strings.HasPrefix(begin, key+"_") || strings.HasPrefix(key+"_", begin)
	})
}

// conditions returns the conditions of the rule of a path: the values of its entries,
// without the values that stand before them, and no other key of the domain.
func (w *ruleWriter) conditions(path []part) string {
	list := []string{"domain=" + quote(w.domain)}
	on := make(map[string]bool)
	for _, p := range path {
		d := p.source
		on[d.Key] = true
		if d.Value != "" {
			list = append(list, d.Key+"="+quote(d.Value))
			continue
		}
		var before []string
		for _, key := range slices.Sorted(maps.Keys(p.level.children)) {
			if s := p.level.children[key].source; s.Key == d.Key && s.Value != "" {
				before = append(before, quote(s.Value))
			}
		}
		if len(before) > 0 {
			list = append(list, d.Key+"!="+strings.Join(before, ",")) // any other value
		} else {
			list = append(list, d.Key+"=+")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		if !on[key] {
			list = append(list, key+"!=+")
		}
	}
	return strings.Join(list, "; ")
}

// quote returns a text as a value in quotes.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
