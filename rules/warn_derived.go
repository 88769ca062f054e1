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

// misfits has a function for each derived parameter that returns what is wrong with
// text as its value; the Message is empty if nothing is.
var misfits = map[string]func(text string) Finding{
	"door":   misfitDoor,
	"method": misfitMethod,
	"host":   misfitHost,
	"path":   misfitPath,
	"scheme": misfitScheme,
	"ip": func(text string) Finding {
		return Finding{Message: fmt.Sprintf("ip is never %q", text), Hint: "want a whole address, or 10.0.*.* or 10.0.0.0/16 for many"}
	},
}

// warnDerived reports conditions on derived parameters with values that doors never
// derive. It needs [params] or [routes]: without them the rules may be for
// applications, which may set these parameters to any value.
func (p *parser) warnDerived() {
	if !p.seen[paramsSection] && !p.seen[routesSection] {
		return
	}
	declared := make(map[string]bool)
	for _, name := range p.declaredNames() {
		declared[name] = true
	}
	for _, d := range p.rules {
		if slices.ContainsFunc(d.Conditions, isForKoala) {
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

// isForKoala reports whether the condition selects Koala's API, whose callers set all
// parameters themselves.
func isForKoala(c *Condition) bool {
	return c.Name == "door" && !c.Negated && slices.Contains(c.texts, "koala")
}

func misfitDoor(text string) Finding {
	if slices.Contains(doorNames, text) {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("unknown door %q", text), Hint: "want " + oneOf(doorNames), Suggestion: suggest(text, doorNames)}
}

func misfitMethod(text string) Finding {
	capitals := strings.ToUpper(text)
	if text == capitals || !slices.Contains(knownMethods, capitals) {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("method is never %q", text), Hint: "want upper case", Suggestion: capitals}
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
	return Finding{Message: fmt.Sprintf("host is never %q", text), Hint: "want lower case, without a port", Suggestion: name}
}

func misfitScheme(text string) Finding {
	name := strings.ToLower(strings.TrimSuffix(text, "://"))
	if text == name {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("scheme is never %q", text), Hint: "want lower case, without ://", Suggestion: name}
}

// escapes removes the two escapes that a path keeps. All others are decoded.
var escapes = strings.NewReplacer("%2F", "", "%25", "")

func misfitPath(text string) Finding {
	hint := ""
	switch {
	case text == "*": // of OPTIONS
	case text[0] != '/':
		hint = "want a path that begins with a slash"
	case strings.Contains(text, "?"):
		hint = "remove the query, which is not part of the path; [params] reads it"
	case strings.Contains(text, "//"), strings.Contains(text+"/", "/./"), strings.Contains(text+"/", "/../"):
		hint = "write the resolved path: dot segments and empty segments never remain"
	case strings.Contains(escapes.Replace(text), "%"):
		hint = "write it decoded: only the escapes %2F and %25 remain"
	}
	if hint == "" {
		return Finding{}
	}
	return Finding{Message: fmt.Sprintf("path is never %q", text), Hint: hint}
}
