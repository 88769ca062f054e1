// Package pacetest counts the pauses of work, for tests.
package pacetest

import (
	"context"
	"testing"
)

// Context is a context that counts the pauses of work, and ends at one of them.
type Context struct {
	context.Context
	Pauses int
	last   int
	end    context.CancelFunc
}

// New returns a context below ctx that ends at the pause with the number last; 0 stands for
// none.
func New(ctx context.Context, t *testing.T, last int) *Context {
	t.Helper()
	ctx, end := context.WithCancel(ctx)
	t.Cleanup(end)
	return &Context{Context: ctx, last: last, end: end}
}

// Err counts a pause: work asks before each whether its context has ended.
func (c *Context) Err() error {
	if c.Pauses++; c.Pauses == c.last {
		c.end()
	}
	return c.Context.Err()
}
