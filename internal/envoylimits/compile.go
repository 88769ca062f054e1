package envoylimits

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Limit is a compiled limit. It is immutable.
type Limit struct {
	// Number is the position in Set.Limits, -1 for the limit of a descriptor.
	Number int
	// Path is the domain and the keys of all levels, as in domain.key_value.key: the
	// name of the limit's statistics. The limit of a descriptor has no values in it.
	Path      string
	Requests  uint32
	Unit      Unit
	Unlimited bool
	Shadow    bool
	Quota     bool
	// Name is the name that answers show and that others replace; "" for none.
	Name     string
	Replaces []string
	// Metadata is nil for none.
	Metadata *structpb.Struct

	detailed bool
	domain   string
	levels   []*Descriptor
}

// String returns the line of the limit on the page /rlconfig of envoyproxy/ratelimit.
func (l *Limit) String() string {
	return fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t", l.Path, l.Unit, l.Requests, l.Shadow, l.Quota)
}

// Set is a compiled configuration. The zero value has no domain. It is immutable and
// safe for concurrent use.
type Set struct {
	domains map[string]*node
	limits  []*Limit
	paths   map[string]*Limit
	size    int // bytes of all paths
}

// The bounds of a configuration, which may come from a hostile control plane.
const (
	// maxPaths is the number of bytes of the paths of all descriptors. Each has the keys of
	// the levels above it, so that a few megabytes of configuration could need hundreds of gigabytes.
	maxPaths = 256 << 20
	// maxPatterns is the number of keys with a * on one level. A call compares its entry
	// with all of them.
	maxPatterns = 10_000
	// maxStars is the number of * in a key.
	maxStars = 100
	// maxReplaces is the number of names that a limit replaces.
	maxReplaces = 1000
	// maxMetadata is the number of bytes of the metadata of a limit, which is part of every
	// answer.
	maxMetadata = 64 << 10
	// maxError is the number of bytes of an error, which names keys.
	maxError = 2000
)

// node is one descriptor of a level; its children are the next level.
type node struct {
	limit    *Limit
	children map[string]*node // by key, or key_value
	patterns []pattern        // for the children with *, in the order of the configuration
	source   *Descriptor      // nil for a domain
	// shared is the part of the pattern behind the key, by which all values count
	// together; "" if each counts for itself.
	shared        string
	valueToMetric bool
}

// pattern is a child whose key has a *.
type pattern struct {
	parts [][]byte // between the stars
	text  string
	child *node
}

// Domains returns the number of domains.
func (s *Set) Domains() int { return len(s.domains) }

// Limits returns all limits in the order of the configuration. The caller must not
// change the list.
func (s *Set) Limits() []*Limit { return s.limits }

// Compile compiles configurations, of which several may concern one domain if merge is
// true. Its error is the first fault, in the words of envoyproxy/ratelimit.
func Compile(configs []*Config, merge bool) (*Set, error) {
	s := &Set{domains: make(map[string]*node, len(configs)), paths: make(map[string]*Limit)}
	for _, c := range configs {
		if err := s.add(c, merge); err != nil {
			return nil, shortened(fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return s, nil
}

// shortened returns an error of at most maxError bytes.
func shortened(err error) error {
	if text := err.Error(); len(text) > maxError {
		return errors.New(strings.ToValidUTF8(text[:maxError], "") + "…")
	}
	return err
}

func (s *Set) add(c *Config, merge bool) error {
	if c.Domain == "" {
		return errors.New("config file cannot have empty domain")
	}
	domain, exists := s.domains[c.Domain]
	switch {
	case exists && !merge:
		return fmt.Errorf("duplicate domain '%s' in config file", c.Domain)
	case !exists:
		domain = &node{}
		s.domains[c.Domain] = domain
	}
	return s.addLevel(domain, c.Domain, c.Domain+".", c.Descriptors, nil)
}

// addLevel adds descriptors of a domain below a node, whose path with a dot is parent. above
// are the descriptors above them.
func (s *Set) addLevel(to *node, domain, parent string, descriptors []Descriptor, above []*Descriptor) error {
	if len(above) > maxDepth {
		return fmt.Errorf("descriptors are nested more than %d levels deep", maxDepth)
	}
	if to.children == nil && len(descriptors) > 0 {
		to.children = make(map[string]*node, len(descriptors))
	}
	for i := range descriptors {
		d := &descriptors[i]
		if d.Key == "" {
			return errors.New("descriptor has empty key")
		}
		key := d.Key
		if d.Value != "" {
			key += "_" + d.Value
		}
		if s.size += len(parent) + len(key); s.size > maxPaths {
			return fmt.Errorf("the names of all descriptors, each with the levels above it, have more than %d bytes", maxPaths)
		}
		path := parent + key
		if _, exists := to.children[key]; exists {
			return fmt.Errorf("duplicate descriptor composite key '%s'", path)
		}
		child, err := compile(d, key, path)
		if err != nil {
			return err
		}
		levels := slices.Concat(above, []*Descriptor{d})
		if child.limit != nil {
			child.limit.Number, child.limit.domain, child.limit.levels = len(s.limits), domain, levels
			s.limits = append(s.limits, child.limit)
			s.paths[path] = child.limit
		}
		if err := to.addPattern(key, child); err != nil {
			return err
		}
		if err := s.addLevel(child, domain, path+".", d.Descriptors, levels); err != nil {
			return err
		}
		to.children[key] = child
	}
	return nil
}

// addPattern adds a child as a pattern if its key has a *.
func (n *node) addPattern(key string, child *node) error {
	switch stars := strings.Count(key, "*"); {
	case stars == 0:
		return nil
	case stars > maxStars:
		return fmt.Errorf("a key has %d *; want at most %d", stars, maxStars)
	case len(n.patterns) == maxPatterns:
		return fmt.Errorf("more than %d keys of one level have a *", maxPatterns)
	}
	n.patterns = append(n.patterns, pattern{parts: bytes.Split([]byte(key), []byte("*")), text: key, child: child})
	return nil
}

// compile returns the node of a descriptor, without the levels below it.
func compile(d *Descriptor, key, path string) (*node, error) {
	n := &node{source: d, valueToMetric: d.ValueToMetric}
	if d.Policy != nil {
		limit, err := compilePolicy(d, path)
		if err != nil {
			return nil, err
		}
		n.limit = limit
	}
	if d.Share {
		if !strings.Contains(key, "*") {
			return nil, fmt.Errorf("share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", key)
		}
		n.shared = key
	}
	if len(d.Metadata) > 0 {
		metadata, err := structpb.NewStruct(d.Metadata)
		if err != nil {
			return nil, fmt.Errorf("error parsing metadata: %w", err)
		}
		if size := proto.Size(metadata); size > maxMetadata {
			return nil, fmt.Errorf("the metadata has %d bytes; want at most %d", size, maxMetadata)
		}
		if n.limit != nil {
			n.limit.Metadata = metadata
		}
	}
	return n, nil
}

func compilePolicy(d *Descriptor, path string) (*Limit, error) {
	p := d.Policy
	unit := unitOf(p.Unit)
	switch {
	case p.Unlimited && unit != Unknown:
		return nil, errors.New("should not specify rate limit unit when unlimited")
	case !p.Unlimited && unit == Unknown:
		return nil, fmt.Errorf("invalid rate limit unit '%s'", p.Unit)
	case len(p.Replaces) > maxReplaces:
		return nil, fmt.Errorf("replaces has %d entries; want at most %d", len(p.Replaces), maxReplaces)
	case slices.Contains(p.Replaces, ""):
		return nil, errors.New("should not have an empty replaces entry")
	case slices.Contains(p.Replaces, p.Name):
		return nil, errors.New("replaces should not contain name of same descriptor")
	}
	return &Limit{
		Path: path, Requests: p.Requests, Unit: unit, Unlimited: p.Unlimited, Shadow: d.Shadow, Quota: d.Quota,
		Name: p.Name, Replaces: p.Replaces, detailed: d.Detailed,
	}, nil
}

// unitOf returns the unit of a name in any case, Unknown for other names.
func unitOf(name string) Unit {
	for u := Second; u <= Week; u++ {
		if strings.EqualFold(name, units[u].name) {
			return u
		}
	}
	return Unknown
}
