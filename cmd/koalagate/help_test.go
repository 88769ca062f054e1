package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command has an example that names it, and a description that manual pages can
// break into lines.
func TestEveryCommandIsDescribed(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for word := range strings.FieldsSeq(c.Long) {
			if len(word) > 70 {
				t.Errorf("%s: manual pages cannot break %s", c.CommandPath(), word)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(new(program).root())
}
