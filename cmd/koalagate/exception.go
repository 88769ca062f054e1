package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/operations"
)

func (p *program) exceptionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "exception",
		Example: "  koalagate exception add --rule 201 uid=ann --count 1000 --for 2h --note migration",
		Short:   "Except single identities from a rule for a stated time",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return errors.New("missing command; want add, list or remove") },
	}
	c.AddCommand(p.exceptionAddCommand(), p.exceptionListCommand(), p.exceptionRemoveCommand())
	return c
}

// exceptionFlags are the flags of `koalagate exception add`.
type exceptionFlags struct {
	instance    instance
	rule, count int64
	limit       string
	allow, deny bool
	span        time.Duration
	note, file  string
	signKey     string
	format      choice
}

func (p *program) exceptionAddCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "add (--rule N | --limit PATH) [NAME=VALUE…] (--count N | --allow | --deny) --for DURATION",
		Short: "Give one identity of a rule another count, a pass or a refusal",
		Long: "Give one identity of a rule another count (and burst, if the rule states none), let it pass the rule,\n" +
			"or let the rule refuse it, for a stated time, at a running instance. With Redis this applies to all\n" +
			"instances within a second, without Redis to this one. Exceptions survive reloads of the rules.\n\n" +
			"NAME=VALUE sets the parameters that the rule counts by; one with a single possible value may be left\n" +
			"out. A value from a source after `else` in [params] has the name of the source: uid@client-ip=1.2.3.4.\n" +
			"If one is missing, or the rule does not count by it, nothing is done, and the exit code is 2. It is 3\n" +
			"if the identity has an exception from this rule.\n\n" +
			"--limit names an imported limit of envoyproxy/ratelimit by its path, as /rlconfig prints it. NAME=VALUE\n" +
			"are then the entries of the descriptor; values that the limit states may be left out. --deny answers\n" +
			"OVER_LIMIT.\n\n" +
			"--file adds a JSON list of exceptions as `exception list --format json` writes it, all or none.",
		Example: "  koalagate exception add --rule 201 uid=ann --count 1000 --for 2h --note migration\n" +
			"  koalagate exception add --rule 201 uid@client-ip=203.0.113.7 --deny --for 30m\n" +
			"  koalagate exception add --limit edge.user user=ann --allow --for 1h",
	}
	o := &exceptionFlags{format: choice{value: "text", among: []string{"text", "json"}}}
	o.instance.add(c)
	f := c.Flags()
	f.Int64Var(&o.rule, "rule", 0, "`NUMBER` of the rule")
	f.StringVar(&o.limit, "limit", "", "`PATH` of an imported limit of envoyproxy/ratelimit instead of a rule, as /rlconfig prints it")
	f.Int64Var(&o.count, "count", 0, "`NUMBER` of hits instead of the rule's count")
	f.BoolVar(&o.allow, "allow", false, "the rule counts nothing and never decides")
	f.BoolVar(&o.deny, "deny", false, "the rule decides, with its result")
	f.DurationVar(&o.span, "for", 0, "`DURATION` until the exception ends, such as 2h; at most 744h, 31 days")
	f.StringVar(&o.note, "note", "", "`TEXT` for the list of exceptions")
	f.StringVar(&o.signKey, "sign-key", "", "PEM `FILE` of the Ed25519 key that signs the exceptions, for publish_public_key")
	f.StringVar(&o.file, "file", "", "JSON `FILE` with a list of exceptions instead of the other flags")
	f.Var(&o.format, "format", "`FORMAT` of the result: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, args []string) error {
		what, err := o.additions(args)
		if err != nil {
			return err
		}
		if o.signKey != "" {
			if err := o.sign(c.Context(), p.environ, what); err != nil {
				return err
			}
		}
		var added []exceptions.Exception
		if err := o.instance.call(c.Context(), p.environ, http.MethodPost, "exceptions", what, &added); err != nil {
			return err
		}
		return p.writeExceptions(added, o.format.value)
	}
	return c
}

// additions returns the request of the flags.
func (o *exceptionFlags) additions(args []string) (*adminapi.Additions, error) {
	if o.file != "" {
		return o.read(args)
	}
	identity, err := parseIdentity(args)
	if err != nil {
		return nil, err
	}
	kinds := 0
	x := exceptions.Exception{Rule: o.rule, Limit: o.limit, Identity: identity, Count: o.count, Note: o.note}
	for what, given := range map[string]bool{exceptions.Count: o.count != 0, exceptions.Allow: o.allow, exceptions.Deny: o.deny} {
		if given {
			x.What = what
			kinds++
		}
	}
	switch {
	case o.rule == 0 && o.limit == "":
		return nil, errors.New("missing --rule NUMBER")
	case o.rule != 0 && o.limit != "":
		return nil, errors.New("want one of --rule and --limit")
	case kinds != 1:
		return nil, errors.New("want one of --count NUMBER, --allow and --deny")
	case o.span <= 0:
		return nil, errors.New("missing --for DURATION, such as 2h")
	case o.span > exceptions.MaxSpan:
		return nil, fmt.Errorf("--for is %s; want at most %.0fh, which is 31 days", o.span, exceptions.MaxSpan.Hours())
	}
	return &adminapi.Additions{Exceptions: []exceptions.Exception{x}, ForMS: max(1, o.span.Milliseconds())}, nil
}

// sign lets the instance complete the exceptions, and signs them.
func (o *exceptionFlags) sign(ctx context.Context, environ []string, what *adminapi.Additions) error {
	key, err := fleet.ReadPrivateKey(o.signKey)
	if err != nil {
		return failure{fmt.Errorf("--sign-key: %w", err)}
	}
	for i := range what.Exceptions {
		what.Exceptions[i].Signature = "" // a list may have others, whose exceptions have ended
	}
	var prepared adminapi.Prepared
	if err := o.instance.call(ctx, environ, http.MethodPost, "exceptions/prepare", what, &prepared); err != nil {
		return err
	}
	if len(prepared.Exceptions) != len(what.Exceptions) {
		return failure{errors.New("the instance returned a different number of exceptions; nothing is signed")}
	}
	for i := range prepared.Exceptions {
		x, asked := &prepared.Exceptions[i], &what.Exceptions[i]
		if what.ForMS != 0 {
			asked.Until = time.Now().Add(time.Duration(what.ForMS) * time.Millisecond)
		}
		if !isCompleted(x, asked, what.ForMS != 0) {
			return failure{fmt.Errorf("the instance would add a different exception: %s, %s %d for %s until %s; nothing is signed", x.Target(), x.What, x.Count, operations.Identity(x.Identity), x.Until.Format(time.RFC3339))}
		}
		x.Author = author()
		x.Sign(key, prepared.Prefix)
	}
	what.Exceptions, what.ForMS = prepared.Exceptions, 0
	return nil
}

// maxClockDifference is how far the end of an exception that is signed may be from the one by
// the clock of this host.
const maxClockDifference = 15 * time.Minute

// isCompleted reports whether an exception is as asked but for its ID, its author, and
// parameters of the identity that were left out. With otherClock its end is by the clock of
// Redis, and may differ by minutes.
func isCompleted(x, asked *exceptions.Exception, otherClock bool) bool {
	for name, value := range asked.Identity {
		if x.Identity[name] != value {
			return false
		}
	}
	difference := x.Until.Sub(asked.Until.Truncate(time.Millisecond)).Abs()
	if otherClock {
		difference = max(0, difference-maxClockDifference)
	}
	return x.Rule == asked.Rule && x.Limit == asked.Limit && x.What == asked.What && x.Count == asked.Count && x.Note == asked.Note && difference == 0
}

// read returns the request of --file.
func (o *exceptionFlags) read(args []string) (*adminapi.Additions, error) {
	if o.rule != 0 || o.limit != "" || o.count != 0 || o.allow || o.deny || o.span != 0 || o.note != "" || len(args) > 0 {
		return nil, errors.New("--file excludes the other flags of an exception")
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return nil, failure{fmt.Errorf("--file: %w", err)}
	}
	what := new(adminapi.Additions)
	if err := json.Unmarshal(text, &what.Exceptions); err != nil {
		return nil, trouble{fmt.Errorf("--file %s is not a JSON list of exceptions, as `exception list --format json` writes it: %w", o.file, err)}
	}
	return what, nil
}

func (p *program) exceptionListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the exceptions in force",
		Long:    "List the exceptions in force at a running instance; the one that ends next is the first.",
		Example: "  koalagate exception list --rule 201",
		Args:    noArguments,
	}
	var i instance
	var rule int64
	var search string
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().Int64Var(&rule, "rule", 0, "`NUMBER` of the rule whose exceptions are listed (default: of all rules)")
	c.Flags().StringVar(&search, "search", "", "`WORDS` that each occur in an exception as it is listed, in any case: uid=ann, bulk")
	c.Flags().Var(&format, "format", "`FORMAT` of the list: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		query := url.Values{"search": {search}}
		if rule != 0 {
			query.Set("rule", strconv.FormatInt(rule, 10))
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
	var i instance
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
		fmt.Fprintf(p.stdout, "removed %s\n", exceptionLine(&removed))
	}
	return nil
}

func (p *program) writeExceptions(list []exceptions.Exception, format string) error {
	if format == "json" {
		return display.JSON(p.stdout, list)
	}
	for i := range list {
		fmt.Fprintln(p.stdout, exceptionLine(&list[i]))
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
