package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/operations"
)

func (p *program) exceptionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "exception",
		Example: "  koalagate exception add --rule 201 uid=ann --count 1000 --for 2h --note migration",
		Short:   "Except single identities from a rule for a stated time",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("missing command; want add, ban, bans, list or remove")
		},
	}
	c.AddCommand(p.exceptionAddCommand(), p.exceptionBanCommand(), p.exceptionBansCommand(), p.exceptionListCommand(), p.exceptionRemoveCommand())
	return c
}

func (p *program) exceptionListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the exceptions in force",
		Long:    "List the exceptions in force at a running instance; the one that ends next is the first.",
		Example: "  koalagate exception list --rule 201",
		Args:    noArguments,
	}
	i := instance{installed: p.installed}
	var rule ruleFlag
	var search string
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	rule.add(c, " whose exceptions are listed (default: of all rules)")
	c.Flags().StringVar(&search, "search", "", "`WORDS` that each occur in an exception as it is listed, in any case: uid=ann, bulk")
	c.Flags().Var(&format, "format", "`FORMAT` of the list: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		query := url.Values{"search": {search}}
		if rule != "" {
			query.Set("rule", string(rule))
		}
		var list []exceptions.Exception
		if err := i.call(c.Context(), p.environ, http.MethodGet, "exceptions?"+query.Encode(), nil, &list); err != nil {
			return err
		}
		return p.writeExceptions(list, format.value)
	}
	return c
}

func (p *program) exceptionRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "remove ID…",
		Short:   "End exceptions",
		Long:    "End exceptions at a running instance. With Redis this applies to all instances within a second.",
		Example: "  koalagate exception remove X4T2QK7MNB5A",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want the ID of an exception, as `exception list` shows it")
			}
			return nil
		},
	}
	i := instance{installed: p.installed}
	i.add(c)
	c.RunE = func(c *cobra.Command, args []string) error { return p.removeExceptions(c.Context(), &i, args) }
	return c
}

func (p *program) removeExceptions(ctx context.Context, i *instance, ids []string) error {
	for _, id := range ids {
		var removed exceptions.Exception
		if err := i.call(ctx, p.environ, http.MethodDelete, "exceptions/"+url.PathEscape(id), nil, &removed); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		display.Printf(p.stdout, "removed %s\n", exceptionLine(&removed))
	}
	return nil
}

func (p *program) writeExceptions(list []exceptions.Exception, format string) error {
	if format == "json" {
		return display.JSON(p.stdout, list)
	}
	for i := range list {
		display.Printf(p.stdout, "%s\n", exceptionLine(&list[i]))
	}
	return nil
}

// exceptionLine returns an exception as one line.
func exceptionLine(x *exceptions.Exception) string {
	what := x.What
	if x.What == exceptions.Count {
		what = fmt.Sprintf("count %d", x.Count)
	}
	line := fmt.Sprintf("%s  %s  %s  %s  until %s  by %s", x.ID, x.Target(), operations.Identity(x.Identity), what, x.Until.Format(time.RFC3339), display.Value(x.Author))
	if x.Note != "" {
		line += "  " + display.Value(x.Note)
	}
	return line
}
