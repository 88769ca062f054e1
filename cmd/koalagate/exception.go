package main

import (
	"errors"
	"fmt"
	"io"
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
	var rule ruleFlag
	var search string
	path := func([]string) string {
		asked := url.Values{"search": {search}}
		if rule != "" {
			asked.Set("rule", string(rule))
		}
		return "exceptions?" + asked.Encode()
	}
	c := query[[]exceptions.Exception]{p, "list", path, writeExceptions}.complete(&cobra.Command{
		Use:     "list",
		Short:   "List the exceptions in force",
		Long:    "List the exceptions in force at a running instance; the one that ends next is the first.",
		Example: "  koalagate exception list --rule 201",
		Args:    noArguments,
	})
	rule.add(c, " whose exceptions are listed (default: of all rules)")
	c.Flags().StringVar(&search, "search", "", "`WORDS` that each occur in an exception as it is listed, in any case: uid=ann, bulk")
	return c
}

func (p *program) exceptionRemoveCommand() *cobra.Command {
	said := func(x *exceptions.Exception) string { return "removed " + exceptionLine(x) }
	return removal[exceptions.Exception]{p, "exceptions/", said}.complete(&cobra.Command{
		Use:     "remove ID…",
		Short:   "End exceptions",
		Long:    "End exceptions at a running instance. With Redis this applies to all instances within a second.",
		Example: "  koalagate exception remove X4T2QK7MNB5A",
	}, "an exception, as `exception list` shows it")
}

func writeExceptions(w io.Writer, list *[]exceptions.Exception) error {
	for i := range *list {
		display.Printf(w, "%s\n", exceptionLine(&(*list)[i]))
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
