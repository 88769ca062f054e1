// Package yamldoc bounds what the aliases of a YAML document expand to. The YAML library
// bounds that only when it decodes into Go values, not for programs that walk the nodes.
package yamldoc

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The bounds of the nodes that aliases add to a document, where each alias adds those that
// it stands for.
const (
	// PerByte is the number of nodes for each byte of the file. Shared parts of real files
	// add less than one.
	PerByte = 20
	// Most is the number of nodes in all.
	Most = 2_000_000
)

// Check returns an error if the aliases of a document, which was read from a text of size
// bytes, add more nodes than the bounds permit, or if a value contains itself. The error
// names the line of an alias. Check takes time in proportion to the size, not to what the
// document expands to.
func Check(document *yaml.Node, size int) error {
	c := checker{most: min(int64(size)*PerByte, Most), nodes: make(map[*yaml.Node]int64)}
	_, err := c.count(document)
	return err
}

// checker counts the nodes of one document.
type checker struct {
	most, added int64
	nodes       map[*yaml.Node]int64 // of the values with anchors; 0 while one is counted
}

// count returns the number of nodes that a node stands for.
func (c *checker) count(n *yaml.Node) (int64, error) {
	if n.Kind == yaml.AliasNode {
		nodes := c.nodes[n.Alias] // an anchor precedes its aliases
		if c.added += nodes; nodes == 0 {
			return 0, fmt.Errorf("line %d: the value &%s contains itself", n.Line, n.Value)
		}
		if c.added > c.most {
			return 0, fmt.Errorf("line %d: the aliases add more than %d values to the file, which %d for each of its bytes and %d in all permit; write fewer aliases of aliases", n.Line, c.most, PerByte, Most)
		}
		return nodes, nil
	}
	if n.Anchor != "" {
		c.nodes[n] = 0
	}
	total := int64(1)
	for _, part := range n.Content {
		nodes, err := c.count(part)
		if err != nil {
			return 0, err
		}
		total += nodes
	}
	if n.Anchor != "" {
		c.nodes[n] = total
	}
	return total, nil
}
