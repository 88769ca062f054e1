package rules

import (
	"slices"

	"github.com/koalagate/koalagate/internal/doorname"
)

// supply describes where the requests of gateways get the parameters of a set from.
type supply struct {
	declared  map[string]*ParamDecl // [params]
	constants map[string]*constants // [routes]
	variables map[string]bool       // of paths in [routes]
	twins     map[string][]string   // by a parameter of [params], those with one of its sources
	paired    map[[2]string]bool    // the pairs of twins
	outcomes  map[string]bool       // of tokens
}

// constants are the values that [routes] gives a parameter.
type constants struct {
	list  []string // without repetitions, in the order of the files
	known map[string]bool
	size  int // bytes of list
}

// newSupply returns the supply of the declarations.
func newSupply(params []*paramDecl, routes *routeTree, tokens []*jwtDecl) *supply {
	s := &supply{
		declared:  make(map[string]*ParamDecl, len(params)),
		constants: make(map[string]*constants), variables: make(map[string]bool), twins: make(map[string][]string), paired: make(map[[2]string]bool), outcomes: make(map[string]bool),
	}
	for _, d := range tokens {
		s.outcomes[d.Param] = true
	}
	s.addTwins(params)
	for _, d := range params {
		s.declared[d.Name] = d.ParamDecl
	}
	for _, e := range routes.list {
		for _, c := range e.constants {
			s.addConstant(c)
		}
		for _, v := range e.variables {
			s.variables[v.name] = true
		}
	}
	return s
}

func (s *supply) addConstant(c Param) {
	of := s.constants[c.Name]
	if of == nil {
		of = &constants{known: make(map[string]bool)}
		s.constants[c.Name] = of
	}
	if !of.known[c.Value] {
		of.known[c.Value], of.list, of.size = true, append(of.list, c.Value), of.size+len(c.Value)
	}
}

// isRouted reports whether a route supplies the parameter.
func (s *supply) isRouted(name string) bool { return s.constants[name] != nil || s.variables[name] }

// supplies reports whether gateways' requests may have the parameter.
func (s *supply) supplies(name string) bool {
	return s.declared[name] != nil || s.isRouted(name) || slices.Contains(derivedNames, name) || s.outcomes[name]
}

// onlyConstants returns the values that [routes] gives a parameter that has no other
// source, nil if it has another one.
func (s *supply) onlyConstants(name string) *constants {
	if s.declared[name] != nil || s.variables[name] || slices.Contains(derivedNames, name) || s.outcomes[name] {
		return nil
	}
	return s.constants[name]
}

// sources returns the sources of a parameter that [params] alone supplies, nil for any
// other.
func (s *supply) sources(name string) []ParamSource {
	if d := s.declared[name]; d != nil && !s.isRouted(name) && !s.outcomes[name] {
		return d.Sources
	}
	return nil
}

// isFromClient reports whether a client can set the source.
func isFromClient(s ParamSource) bool {
	return s.Kind.is().client
}

// clientSource returns the first source of the parameter that clients can set, nil if
// there is none.
func (s *supply) clientSource(name string) *ParamSource {
	sources := s.sources(name)
	if i := slices.IndexFunc(sources, isFromClient); i >= 0 {
		return &sources[i]
	}
	return nil
}

// isOmittable reports whether a client decides whether a request has the parameter: it
// can set or leave out all of its sources.
func (s *supply) isOmittable(name string) bool {
	sources := s.sources(name)
	return len(sources) > 0 && !slices.ContainsFunc(sources, func(from ParamSource) bool { return !isFromClient(from) && !from.Kind.is().spared })
}

// omittedSource returns the source that a client leaves out to have no such parameter: the
// first that it can set, or else the first.
func (s *supply) omittedSource(name string) *ParamSource {
	if from := s.clientSource(name); from != nil {
		return from
	}
	return &s.sources(name)[0]
}

// isAlwaysPresent reports whether every request of a gateway has the parameter.
func (s *supply) isAlwaysPresent(name string) bool {
	if d := s.declared[name]; d != nil {
		return slices.ContainsFunc(d.Sources, func(from ParamSource) bool { return from.Kind.is().always })
	}
	return name != "domain" && slices.Contains(derivedNames, name)
}

// isOptional reports whether requests may lack a parameter that [params] supplies, although
// the gateway's configuration does not choose which have it, as it chooses the descriptors
// of a rate limit call.
func (s *supply) isOptional(name string) bool {
	sources := s.sources(name)
	return len(sources) > 0 && !s.isAlwaysPresent(name) &&
		!slices.ContainsFunc(sources, func(from ParamSource) bool { return from.Kind.is().chosen })
}

// chosenSource returns the first source with which the condition holds for any new value
// that a client invents, nil if there is none. With =+, a plain header does not count: a
// gateway that authenticates clients overwrites it, but neither keys nor cookies nor
// queries.
func (s *supply) chosenSource(c *Condition) *ParamSource {
	if !c.isOpen() {
		return nil
	}
	sources := s.sources(c.Name)
	for i := range sources {
		switch from := &sources[i]; {
		case isFromClient(*from) && (c.Negated || from.Hashed || !from.Kind.is().vouched):
			return from
		case from.Kind.is().always: // the others are not read
			return nil
		}
	}
	return nil
}

// identifiesRequest reports whether the parameter describes what is requested, rather
// than who requests it.
func (s *supply) identifiesRequest(name string) bool {
	return s.isRouted(name) || s.declared[name] == nil && name != "ip" && slices.Contains(derivedNames, name)
}

// addTwins connects the parameters that have a source in common that clients set.
func (s *supply) addTwins(params []*paramDecl) {
	first := make(map[clientKey]string)
	for _, d := range params {
		for _, from := range d.Sources {
			if !isFromClient(from) {
				continue
			}
			key := clientKey{from.Kind, from.Name}
			switch other, known := first[key]; {
			case !known:
				first[key] = d.Name
			case other != d.Name && !s.paired[[2]string{other, d.Name}]:
				s.paired[[2]string{other, d.Name}], s.paired[[2]string{d.Name, other}] = true, true
				s.twins[d.Name] = append(s.twins[d.Name], other)
				s.twins[other] = append(s.twins[other], d.Name)
			}
		}
	}
}

// isTwin reports whether two parameters are the same, or have a source in common that
// clients set, so that one value becomes both.
func (s *supply) isTwin(a, b string) bool { return a == b || s.paired[[2]string{a, b}] }

// doors returns the doors that a condition of the rule requires, and reports whether the
// rule has such a condition.
func (r *Rule) doors() (names []string, selects bool) {
	for _, c := range r.Conditions {
		if c.Name == "door" && c.Selects() {
			return c.selectedDoors(), true
		}
	}
	return nil, false
}

// selectedDoors returns the doors for which a condition on the door holds; none for a word
// list, which changes at run time.
func (c *Condition) selectedDoors() []string {
	if c.form != formGlob {
		return c.texts
	}
	return slices.DeleteFunc(slices.Clone(doorNames), func(name string) bool { return !c.globs.match(name) })
}

// selectsDoor reports whether the rule requires a door, and one with a property satisfies
// it.
func (r *Rule) selectsDoor(has func(*doorname.Door) bool) bool {
	doors, _ := r.doors()
	return slices.ContainsFunc(doors, func(name string) bool { return has(doorname.Of(name)) })
}

// mayMeet reports whether requests of a door may meet the rule, as far as its conditions on the
// door show.
func (r *Rule) mayMeet(door string) bool {
	return !slices.ContainsFunc(r.Conditions, func(c *Condition) bool {
		return c.Name == "door" && c.form != formDict && !c.holds(&value{text: door}, 0)
	})
}

// isForOwnParams reports whether the callers of the rule's doors send parameters by
// name, as descriptors and applications do.
func (r *Rule) isForOwnParams() bool {
	return r.selectsDoor((*doorname.Door).NamesParams) || slices.ContainsFunc(r.Conditions, func(c *Condition) bool {
		return c.Name == "domain" && !c.wantsAbsence()
	})
}
