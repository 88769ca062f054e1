package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
)

// doorNames are the values of the derived parameter `door`.
var doorNames = doorname.All()

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// misfits say what is wrong with a text as the value of a derived parameter;
// an empty Message if nothing is.
var misfits = map[string]func(text string) Finding{
	"door":   misfitDoor,
	"method": misfitMethod,
	"host":   misfitHost,
	"path":   misfitPath,
	"scheme": misfitScheme,
	"ip": func(text string) Finding {
		return Finding{Message: fmt.Sprintf("ip is never %q", text), Hint: "it is a whole address; write 10.0.*.* or 10.0.0.0/16 for many"}
	},
}

// warnDerived reports conditions on what doors derive from every request that
// ask for a value which it never has. Without [params] and [routes] the file
// may be one for applications, which say these parameters as they like.
func (p *parser) warnDerived() {
	if !p.seen[paramsSection] && !p.seen[routesSection] {
		return
	}
	declared := make(map[string]bool)
	for _, name := range p.declaredNames() {
		declared[name] = true
	}
	for _, d := range p.rules {
		if slices.ContainsFunc(d.Conditions, asksKoala) {
			continue
		}
		for i, c := range d.Conditions {
			misfit := misfits[c.Name]
			if misfit == nil || declared[c.Name] {
				continue
			}
			for _, text := range c.texts {
				if f := misfit(text); f.Message != "" {
					p.found.add(warnDerived, d.places[i], f)
					break
				}
			}
		}
	}
}

// asksKoala tells whether the condition is for the door whose callers say all
// parameters themselves.
func asksKoala(c *Condition) bool {
	return c.Name == "door" && !c.Negated && slices.Contains(c.texts, "koala")
}

func misfitDoor(text string) Finding {
	if slices.Contains(doorNames, text) {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("there is no door %q", text), Hint: "want " + oneOf(doorNames), Suggestion: suggest(text, doorNames)}
}

func misfitMethod(text string) Finding {
	capitals := strings.ToUpper(text)
	if text == capitals || !slices.Contains(knownMethods, capitals) {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("method is never %q", text), Hint: "methods are in capitals", Suggestion: capitals}
}

func misfitHost(text string) Finding {
	name, port, _ := strings.Cut(text, ":")
	if strings.Contains(port, ":") { // an address of IPv6
		name = text
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if text == name {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("host is never %q", text), Hint: "it is in lower case, without a port", Suggestion: name}
}

func misfitScheme(text string) Finding {
	name := strings.ToLower(strings.TrimSuffix(text, "://"))
	if text == name {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("scheme is never %q", text), Hint: "it is in lower case, without what follows", Suggestion: name}
}

// escapes are those that a path keeps: what else is escaped is decoded.
var escapes = strings.NewReplacer("%2F", "", "%25", "")

func misfitPath(text string) Finding {
	hint := ""
	switch {
	case text == "*": // of OPTIONS
	case text[0] != '/':
		hint = "it begins with a slash"
	case strings.Contains(text, "?"):
		hint = "the query is no part of it; [params] reads the query"
	case strings.Contains(text, "//"), strings.Contains(text+"/", "/./"), strings.Contains(text+"/", "/../"):
		hint = "dot segments and empty ones are resolved"
	case strings.Contains(escapes.Replace(text), "%"):
		hint = "it is decoded; of escapes only %2F and %25 are left"
	}
	if hint == "" {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("path is never %q", text), Hint: hint}
}
