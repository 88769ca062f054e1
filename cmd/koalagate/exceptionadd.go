package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/operations"
)

// exceptionFlags are the flags of `koalagate exception add`.
type exceptionFlags struct {
	instance    instance
	rule        ruleFlag
	count       int64
	limit       string
	allow, deny bool
	span        time.Duration
	note, file  string
	signKey     string
	handle      string
	format      choice
}

func (p *program) exceptionAddCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "add (--rule RULE | --limit PATH) [NAME=VALUE…] (--count N | --allow | --deny) --for DURATION",
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
			handleHelp + "\n\n" +
			"--file adds a JSON list of exceptions as `exception list --format json` writes it; a rule may also be\n" +
			"its name. All are checked before the first is added; an error names the entry and its line. They are\n" +
			"added 1,000 at a time. If that fails, the error names the entries that are in force.",
		Example: "  koalagate exception add --rule 201 uid=ann --count 1000 --for 2h --note migration\n" +
			"  koalagate exception add --rule logins uid@client-ip=203.0.113.7 --deny --for 30m\n" +
			"  koalagate exception add --limit edge.user user=ann --allow --for 1h",
	}
	o := &exceptionFlags{instance: instance{installed: p.installed}, format: choice{value: "text", among: []string{"text", "json"}}}
	o.instance.add(c)
	f := c.Flags()
	o.rule.add(c, "")
	f.StringVar(&o.limit, "limit", "", "`PATH` of an imported limit of envoyproxy/ratelimit instead of a rule, as /rlconfig prints it")
	f.Int64Var(&o.count, "count", 0, "`NUMBER` of hits instead of the rule's count")
	f.BoolVar(&o.allow, "allow", false, "the rule counts nothing and never decides")
	f.BoolVar(&o.deny, "deny", false, "the rule decides, with its result")
	f.StringVar(&o.file, "file", "", "JSON `FILE` with a list of exceptions instead of the other flags")
	o.addCommon(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.file != "" {
			return p.addFile(c.Context(), o, args)
		}
		x, err := o.exception(args)
		if err != nil {
			return err
		}
		return p.addOne(c.Context(), o, adminapi.Addition{Rule: adminapi.RuleRef(o.rule), Exception: *x})
	}
	return c
}

// addCommon adds the flags of all commands that add exceptions.
func (o *exceptionFlags) addCommon(c *cobra.Command) {
	f := c.Flags()
	f.DurationVar(&o.span, "for", 0, "`DURATION` until the exception ends, such as 2h; at most 744h, 31 days")
	f.StringVar(&o.note, "note", "", "`TEXT` for the list of exceptions")
	addHandle(c, &o.handle)
	f.StringVar(&o.signKey, "sign-key", "", "PEM `FILE` of the Ed25519 key that signs the exceptions, for publish_public_key")
	f.Var(&o.format, "format", "`FORMAT` of the result: text or json (docs/formats.md)")
}

// addOne adds an exception for --for.
func (p *program) addOne(ctx context.Context, o *exceptionFlags, x adminapi.Addition) error {
	what := &adminapi.Additions{Exceptions: []adminapi.Addition{x}, ForMS: max(1, o.span.Milliseconds())}
	added, err := o.add(ctx, p.environ, what)
	if err != nil {
		return err
	}
	if o.format.value == "json" {
		return display.JSON(p.stdout, added)
	}
	return writeExceptions(p.stdout, &added)
}

// add signs exceptions if there is a key, and adds them.
func (o *exceptionFlags) add(ctx context.Context, environ []string, what *adminapi.Additions) (added []exceptions.Exception, err error) {
	if o.signKey != "" {
		if err := o.sign(ctx, environ, what); err != nil {
			return nil, err
		}
	}
	return added, o.instance.call(ctx, environ, http.MethodPost, "exceptions", what, &added)
}

// exception returns the exception of the flags, without its rule.
func (o *exceptionFlags) exception(args []string) (*exceptions.Exception, error) {
	identity, err := parseIdentity(args)
	if err != nil {
		return nil, err
	}
	kinds := 0
	x := exceptions.Exception{Limit: o.limit, Identity: identity, Handle: o.handle, Count: o.count, Note: o.note}
	for what, given := range map[string]bool{exceptions.Count: o.count != 0, exceptions.Allow: o.allow, exceptions.Deny: o.deny} {
		if given {
			x.What = what
			kinds++
		}
	}
	switch {
	case o.rule == "" && o.limit == "":
		return nil, errors.New("missing --rule NUMBER or NAME")
	case o.rule != "" && o.limit != "":
		return nil, errors.New("want one of --rule and --limit")
	case kinds != 1:
		return nil, errors.New("want one of --count NUMBER, --allow and --deny")
	}
	return &x, o.checkSpan()
}

// checkSpan returns an error for a missing or too long --for, and for a handle that would be signed.
func (o *exceptionFlags) checkSpan() error {
	switch {
	case o.handle != "" && o.signKey != "":
		return errors.New("--sign-key signs the values of an identity, which --handle does not show; want NAME=VALUE")
	case o.span <= 0:
		return errors.New("missing --for DURATION, such as 2h")
	case o.span > exceptions.MaxSpan:
		return fmt.Errorf("--for is %s; want at most %.0fh, which is 31 days", o.span, exceptions.MaxSpan.Hours())
	}
	return nil
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
	for i := range prepared.Exceptions {
		what.Exceptions[i] = adminapi.Adding(&prepared.Exceptions[i])
	}
	what.ForMS = 0
	return nil
}

// maxClockDifference is how far the end of an exception that is signed may be from the one by
// the clock of this host.
const maxClockDifference = 15 * time.Minute

// isCompleted reports whether an exception is as asked but for its ID, its author, the number of a
// rule that was named, and parameters of the identity that were left out. With otherClock its end is
// by the clock of Redis, and may differ by minutes.
func isCompleted(x *exceptions.Exception, asked *adminapi.Addition, otherClock bool) bool {
	if number, known := asked.Rule.Number(); known && x.Rule != number {
		return false
	}
	for name, value := range asked.Identity {
		if x.Identity[name] != value {
			return false
		}
	}
	difference := x.Until.Sub(asked.Until.Truncate(time.Millisecond)).Abs()
	if otherClock {
		difference = max(0, difference-maxClockDifference)
	}
	return x.Limit == asked.Limit && x.What == asked.What && x.Count == asked.Count && x.Note == asked.Note && slices.Equal(x.Masked, asked.Masked) && difference == 0
}
