package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/operations"
)

func (p *program) resetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reset --rule RULE [--handle HANDLE] [NAME=VALUE…]",
		Short: "Forget the counter of a rule for an identity",
		Long: "Forget what a rule has counted for an identity, and lift its ban, at a running instance. With Redis\n" +
			"this applies to all instances within a second.\n\n" +
			"NAME=VALUE sets the parameters that the rule counts by; one with a single possible value may be left\n" +
			"out. A value from a source after `else` in [params] has the name of the source: uid@client-ip=1.2.3.4.\n" +
			"If one is missing, or the rule does not count by it, nothing is done, and the exit code is 2.\n\n" +
			handleHelp,
		Example: "  koalagate reset --rule 201 uid=ann\n  koalagate reset --rule logins ip=203.0.113.7",
	}
	i := instance{installed: p.installed}
	var rule ruleFlag
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	rule.add(c, "")
	var handle string
	addHandle(c, &handle)
	c.Flags().Var(&format, "format", "`FORMAT` of the result: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if rule == "" {
			return errors.New("missing --rule NUMBER or NAME")
		}
		identity, err := parseIdentity(args)
		if err != nil {
			return err
		}
		return p.reset(c.Context(), &i, adminapi.Reset{Rule: adminapi.RuleRef(rule), Identity: identity, Handle: handle}, format.value)
	}
	return c
}

func (p *program) reset(ctx context.Context, i *instance, what adminapi.Reset, format string) error {
	var done operations.ResetDone
	if err := i.call(ctx, p.environ, http.MethodPost, "reset", what, &done); err != nil {
		return err
	}
	if format == "json" {
		return display.JSON(p.stdout, &done)
	}
	display.Printf(p.stdout, "reset rule %d for %s\n", done.Rule, done.Identity)
	if done.Degraded {
		fmt.Fprintln(p.stdout, "Redis is unavailable: only the counter of this instance was reset")
	}
	return nil
}

// handleHelp explains the flag --handle.
const handleHelp = "A row of top or of `exception bans` with masked values has a handle, which names its identity instead,\n" +
	"for an hour and at the instance that listed it. The values stay hidden; NAME=VALUE as in the row\n" +
	"select some of its parameters."

// addHandle adds the flag --handle.
func addHandle(c *cobra.Command, handle *string) {
	c.Flags().StringVar(handle, "handle", "", "`HANDLE` of a row of top or bans whose values are masked")
}

// parseIdentity parses the NAME=VALUE arguments that name an identity.
func parseIdentity(args []string) (operations.Identity, error) {
	entries, err := parseEntries(args)
	if err != nil {
		return nil, err
	}
	identity := make(operations.Identity, len(entries))
	for _, e := range entries {
		if _, twice := identity[e.Key]; twice {
			return nil, fmt.Errorf("duplicate parameter %s", e.Key)
		}
		identity[e.Key] = e.Value
	}
	return identity, nil
}
