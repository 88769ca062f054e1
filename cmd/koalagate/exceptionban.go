package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/rules"
)

func (p *program) exceptionBanCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ban {NAME=VALUE… | --handle HANDLE} --for DURATION",
		Short: "Refuse everything that a client asks, before any rule",
		Long: "Refuse every request that has all of these parameters, before any rule, with 429 and Retry-After until\n" +
			"the end of the ban. Nothing is counted for it meanwhile, and its start and its end also end what rules with\n" +
			"ban= have opened for the identity. With Redis this applies to all instances within a second. A ban is an exception:\n" +
			"`exception list` shows it, and `exception remove` ends it. To let one rule refuse an identity, use\n" +
			"`exception add --rule RULE --deny`.\n\n" +
			"Parameters by which no rule counts clients one by one, such as act=comment alone, tell no client from\n" +
			"another: the ban would refuse everyone whose requests have them. It needs --yes; without it nothing is\n" +
			"done, and the exit code is 2.\n\n" +
			"A value from a source after `else` in [params] has the name of the source: uid@client-ip=1.2.3.4.\n\n" +
			handleHelp,
		Example: "  koalagate exception ban uid=ann --for 1h --note 'attack on the log-in'\n" +
			"  koalagate exception ban ip=203.0.113.7 --for 30m",
	}
	o := &exceptionFlags{instance: instance{installed: p.installed}, format: choice{value: "text", among: []string{"text", "json"}}}
	o.instance.add(c)
	o.addCommon(c)
	isMeant := c.Flags().Bool("yes", false, "ban although the parameters may tell no client from another")
	c.RunE = func(c *cobra.Command, args []string) error {
		identity, err := parseIdentity(args)
		if err != nil {
			return err
		}
		if len(identity) == 0 && o.handle == "" {
			return errors.New("missing NAME=VALUE, such as uid=ann, or --handle")
		}
		if err := o.checkSpan(); err != nil {
			return err
		}
		if !*isMeant && o.handle == "" {
			if err := p.checkEveryone(c.Context(), &o.instance, identity); err != nil {
				return err
			}
		}
		return p.addOne(c.Context(), o, adminapi.Addition{Exception: exceptions.Exception{What: exceptions.Ban, Identity: identity, Handle: o.handle, Note: o.note}})
	}
	return c
}

// checkEveryone returns an error if the parameters of a ban tell no client from another by the rules
// in force. Imported limits may tell clients apart by any entry of a descriptor.
func (p *program) checkEveryone(ctx context.Context, i *instance, identity map[string]string) error {
	var book operations.Book
	if err := i.call(ctx, p.environ, http.MethodGet, "rules", nil, &book); err != nil {
		return fmt.Errorf("whether the ban refuses everyone is unknown, and --yes bans without this question: %w", err)
	}
	if book.Imported != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(identity))
	for _, full := range names {
		name, _, _ := strings.Cut(full, "@")
		isKnown := rules.IsDerived(name) || slices.ContainsFunc(book.Params, func(p operations.BookParam) bool { return p.Name == name })
		for _, r := range book.Rules {
			if slices.Contains(r.Free, name) {
				return nil
			}
			isKnown = isKnown || slices.Contains(r.CountsBy, name)
		}
		if name == "ip" || !isKnown { // the instance refuses what nothing knows
			return nil
		}
	}
	return fmt.Errorf("no rule tells one client from another by %s: the ban would refuse everyone whose requests have it; add --yes if you mean that", strings.Join(names, " and "))
}

func (p *program) exceptionBansCommand() *cobra.Command {
	q := query[[]operations.AutomaticBan]{p, "list", func([]string) string { return "bans" }, writeBans}
	return q.complete(&cobra.Command{
		Use:   "bans",
		Short: "List the bans that rules have opened",
		Long: "List the bans in force that rules with ban= have opened, of the last 1024 identities that this instance\n" +
			"has refused by such rules; the one that ends last is the first. Values that clients sent are masked,\n" +
			"except for the parameters in the setting decision_log_params. `koalagate reset` ends such a ban; the handle of a\n" +
			"row with masked values names its identity.",
		Example: "  koalagate exception bans",
		Args:    noArguments,
	})
}

func writeBans(w io.Writer, list *[]operations.AutomaticBan) error {
	if len(*list) == 0 {
		fmt.Fprintln(w, "no bans by rules")
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tname\tfor another\tidentity"+handleHead(slices.ContainsFunc(*list, func(b operations.AutomaticBan) bool { return b.Handle != "" })))
	for i := range *list {
		b := &(*list)[i]
		display.Printf(t, "%d\t%s\t%s\t%s", b.Rule, b.Name, spanText(b.BannedMS), b.Identity)
		fmt.Fprintln(t, handleCell(b.Handle))
	}
	return t.Flush()
}
