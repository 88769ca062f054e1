package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// errUnreachable begins the error of a call to a node that is unreachable, whatever made it so.
var errUnreachable = fmt.Errorf("the node is unreachable, and %w", redisconn.ErrUnsent)

// nodeError is an error of one node of a Cluster.
type nodeError struct {
	addr string
	err  error
	all  bool // no other node is reachable either
}

// ofSlot describes the node that owns a slot, for errors without its address.
func ofSlot(slot uint16) string { return fmt.Sprintf("of slot %d", slot) }

func (e *nodeError) Error() string { return fmt.Sprintf("node %s: %v", e.addr, e.err) }

// Unwrap returns the cause.
func (e *nodeError) Unwrap() error { return e.err }

// ofOneNode reports whether err shows nothing about the other nodes of a Cluster.
func ofOneNode(err error) bool {
	var one *nodeError
	return errors.As(err, &one) && !one.all
}

// nodeErrors are the errors of several nodes.
type nodeErrors []error

// maxErrorsShown bounds the log line of a large Cluster.
const maxErrorsShown = 3

func (f nodeErrors) Error() string {
	var shown []string
	for _, err := range f[:min(len(f), maxErrorsShown)] {
		shown = append(shown, err.Error())
	}
	if more := len(f) - maxErrorsShown; more > 0 {
		shown = append(shown, "and "+strconv.Itoa(more)+" more nodes")
	}
	return strings.Join(shown, "; ")
}

// Unwrap returns the errors.
func (f nodeErrors) Unwrap() []error { return f }
