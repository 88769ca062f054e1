package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
)

// doorNames are the values of the derived parameter `door`.
var doorNames = doorname.InRules()

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// misfits has a function for each derived parameter except door that returns what is
// wrong with text as its value; the Message is empty if nothing is.
var misfits = map[string]func(text string) Finding{
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
func (p *parser) warnDerived(s *supply) {
	if !p.isForGateways() {
		return
	}
	for _, d := range p.eachRule() {
		if d.selectsDoor((*doorname.Door).SetsAll) {
			continue
		}
		for i, c := range d.Conditions {
			misfit := misfits[c.Name]
			if misfit == nil || s.declared[c.Name] != nil || s.isRouted(c.Name) {
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

// warnDoors reports unknown doors in conditions and routes. Without [params] and
// [routes], an application may send a parameter of this name. Then the word must
// resemble a door or be a gateway, or another condition must name a door.
func (p *parser) warnDoors(s *supply) {
	for _, e := range p.routes.list {
		for _, c := range e.constants {
			if c.Name == "door" && !slices.Contains(doorNames, c.Value) {
				f := misfitDoor(c.Value)
				f.Message = fmt.Sprintf("the route sets the door to %q, which is no door", c.Value)
				f.Hint += "; a route does not select doors, but rules do"
				p.found.add(warnRouteDoor, e.at, f)
			}
		}
	}
	if s.declared["door"] != nil || s.variables["door"] {
		return
	}
	certain := p.isForGateways() || slices.ContainsFunc(p.rules, func(d *ruleDecl) bool { return d.selectsDoor((*doorname.Door).IsKnown) })
	for _, d := range p.eachRule() {
		for i, c := range d.Conditions {
			if c.Name == "door" {
				p.warnDoor(c, d.places[i], s.constants["door"], certain)
			}
		}
	}
}

// warnDoor reports the first unknown door of a condition. The constants come from
// [routes], nil if there are none.
func (p *parser) warnDoor(c *Condition, at span, routed *constants, certain bool) {
	for _, text := range c.texts {
		f := misfitDoor(text)
		if f.Message == "" || routed != nil && routed.known[text] || !certain && f.Suggestion == "" {
			continue
		}
		p.found.add(warnDerived, at, f)
		return
	}
}

func misfitDoor(text string) Finding {
	if slices.Contains(doorNames, text) {
		return Finding{}
	}
	meant := doorname.Misnamed(strings.ToLower(text))
	if meant == "" {
		meant = suggest(text, doorNames)
	}
	return Finding{Message: fmt.Sprintf("unknown door %q", text), Hint: "want " + oneOf(doorNames), Suggestion: meant}
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
