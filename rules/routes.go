package rules

import (
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/httptext"
)

// routeTree has the entries of [routes] in a tree of path segments, so that the cost of a
// look-up does not grow with their number. It is immutable and safe for concurrent use.
type routeTree struct {
	root node
	list []*route // in the order of the files
}

// node is a node of the tree. It represents the path that leads to it from the root.
type node struct {
	literals map[string]*node // by the next segment
	variable *node            // any next segment that is not empty
	exact    map[string]*route
	subtree  map[string]*route // for any further segments
}

// anyMethod is the method of an entry for all methods.
const anyMethod = "*"

// route is one entry.
type route struct {
	method    string
	variables []routeVariable
	constants []Param
	rest      bool // ends in {x...}, which needs at least one character
	at        span
}

// routeVariable is a variable of a path.
type routeVariable struct {
	name    string
	segment int
	rest    bool // the value is this segment and all that follow
}

// Route sets in p the constants and variables of the one route that applies
// to method and the decoded path segments ("/a/b" is [a b], "/a/" is [a ""],
// "/" is [""]), and reports whether a route applies. A variable with a blank value, as
// in /%20, is absent and does not replace a value that p already has.
func (s *Set) Route(method string, segments []string, p *Params) bool {
	if method == "HEAD" {
		method = "GET"
	}
	found := s.routes.root.find(method, segments, 0)
	if found == nil {
		return false
	}
	for _, v := range found.variables {
		value := segments[v.segment]
		if v.rest {
			value = httptext.JoinSegments(segments[v.segment:])
		}
		if strings.TrimSpace(value) != "" {
			p.Set(v.name, value)
		}
	}
	for _, c := range found.constants {
		p.Set(c.Name, c.Value)
	}
	return true
}

// find returns the entry that applies to segments[at:], nil if there is none. If the
// more specific path has no entry for the method, it tries the less specific one.
func (n *node) find(method string, segments []string, at int) *route {
	if at == len(segments) {
		return pick(n.exact, method, true)
	}
	if child := n.literals[segments[at]]; child != nil {
		if found := child.find(method, segments, at+1); found != nil {
			return found
		}
	}
	if n.variable != nil && segments[at] != "" {
		if found := n.variable.find(method, segments, at+1); found != nil {
			return found
		}
	}
	return pick(n.subtree, method, at+1 < len(segments) || segments[at] != "")
}

// pick returns the entry for the method, or else the one for any method. Entries that
// end in {x...} apply only if something is left of the path.
func pick(entries map[string]*route, method string, left bool) *route {
	for _, m := range [...]string{method, anyMethod} {
		if e := entries[m]; e != nil && (left || !e.rest) {
			return e
		}
	}
	return nil
}

// add adds an entry to the tree. If the tree has an equal entry, add returns that and
// changes nothing.
func (r *routeTree) add(e *route, pattern []patternSegment) *route {
	n, entries := &r.root, &r.root.exact
	for i, s := range pattern {
		if s.subtree {
			e.rest = s.variable != ""
		}
		if s.variable != "" {
			e.variables = append(e.variables, routeVariable{s.variable, i, s.subtree})
		}
		n, entries = n.child(s)
	}
	if *entries == nil {
		*entries = make(map[string]*route)
	}
	if equal := (*entries)[e.method]; equal != nil {
		return equal
	}
	(*entries)[e.method] = e
	r.list = append(r.list, e)
	return nil
}

// child returns the node that a segment of a pattern leads to, and the entries that
// end there.
func (n *node) child(s patternSegment) (*node, *map[string]*route) {
	switch {
	case s.subtree:
		return n, &n.subtree
	case s.variable != "":
		if n.variable == nil {
			n.variable = &node{}
		}
		return n.variable, &n.variable.exact
	}
	child := n.literals[s.literal]
	if child == nil {
		if n.literals == nil {
			n.literals = make(map[string]*node)
		}
		child = &node{}
		n.literals[s.literal] = child
	}
	return child, &child.exact
}

// Route is one entry as it is written.
type Route struct {
	Text string // METHOD /path : name=value
	Pos  Position
}

// Routes returns the entries of [routes] in the order of the files.
func (s *Set) Routes() []Route {
	list := make([]Route, len(s.routes.list))
	for i, e := range s.routes.list {
		list[i] = Route{e.at.text(), e.at.position()}
	}
	return list
}

// WithoutRoutes returns a copy of the set that has no routes. For koalagate's own programs, may
// change.
func (s *Set) WithoutRoutes() *Set {
	without := *s
	without.routes = routeTree{}
	return &without
}

// routeTexts returns the routes in a canonical form, sorted: their order has no meaning.
func (s *Set) routeTexts() []string {
	texts := make([]string, len(s.routes.list))
	for i, e := range s.routes.list {
		texts[i] = strings.Join(strings.Fields(e.at.text()), " ")
	}
	slices.Sort(texts)
	return texts
}

// RouteConstants returns the values that [routes] sets, by the name of the parameter. They
// are words of the rule file, so they do not identify a client. For koalagate's own
// programs, may change.
func (s *Set) RouteConstants() map[string]map[string]bool {
	values := make(map[string]map[string]bool)
	for _, e := range s.routes.list {
		for _, c := range e.constants {
			if values[c.Name] == nil {
				values[c.Name] = make(map[string]bool)
			}
			values[c.Name][c.Value] = true
		}
	}
	return values
}

// patternSegment is one segment of a route's path.
type patternSegment struct {
	literal  string // decoded; empty after a trailing slash
	variable string // {x}, and {x...} in a subtree
	subtree  bool   // this segment and all that follow it
}
