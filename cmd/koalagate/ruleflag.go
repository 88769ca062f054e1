package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var _ pflag.Value = (*ruleFlag)(nil)

// ruleFlag is the number or the name of a rule; "" for none.
type ruleFlag string

// add adds the flag. The purpose ends its description.
func (r *ruleFlag) add(c *cobra.Command, purpose string) {
	c.Flags().Var(r, "rule", "number or name of the `RULE`"+purpose)
}

// String returns the text.
func (r *ruleFlag) String() string { return string(*r) }

// Set accepts a positive number or a name.
func (r *ruleFlag) Set(text string) error {
	number, err := strconv.ParseInt(text, 10, 64)
	if text == "" || err == nil && number < 1 {
		return errors.New("want the number of a rule, as return= states it, or its name")
	}
	*r = ruleFlag(text)
	return nil
}

// Type returns the type name in usage messages.
func (*ruleFlag) Type() string { return "string" }
