package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/operations"
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

// number returns the number of the rule, which the instance knows by a name.
func (r *ruleFlag) number(ctx context.Context, environ []string, i *instance) (int64, error) {
	if number, err := strconv.ParseInt(string(*r), 10, 64); err == nil {
		return number, nil
	}
	var row operations.BookRule
	err := i.call(ctx, environ, http.MethodGet, "rules/"+url.PathEscape(string(*r)), nil, &row)
	return row.Rule, err
}
