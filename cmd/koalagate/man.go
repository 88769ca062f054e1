package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (p *program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages of all commands",
		Long:    "Write a manual page per command, koalagate-serve.1 for serve, into an existing folder.",
		Example: "  mkdir -p man && koalagate man man && man -l man/koalagate.1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want one folder for the manual pages")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return failed("%s is not a folder; create it", args[0])
			}
			root := c.Root()
			root.InitDefaultHelpCmd()
			return writeManual(root, args[0])
		},
	}
}

// writeManual writes the pages of a command and of those below it into a folder.
func writeManual(c *cobra.Command, folder string) error {
	path := filepath.Join(folder, manualName(c)+".1")
	if err := os.WriteFile(path, []byte(manualPage(c, thisBuild())), 0o644); err != nil { //nolint:gosec // for all users
		return failure{err}
	}
	for _, sub := range documented(c) {
		if err := writeManual(sub, folder); err != nil {
			return err
		}
	}
	return nil
}

// documented returns the subcommands of a command that have pages, by name.
func documented(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand()
	})
}

func manualName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage returns the page of a command in roff. cobra's own writer of pages needs a library
// for Markdown, whose tables would be in the memory of each instance of the service.
func manualPage(c *cobra.Command, b build) string {
	// Equal builds write equal pages: they have the date of the build.
	date, err := time.Parse(time.RFC3339, b.date)
	if err != nil {
		date = time.Unix(0, 0).UTC()
	}
	c.InitDefaultHelpFlag()
	var page strings.Builder
	fmt.Fprintf(&page, ".nh\n.TH \"%s\" \"1\" \"%s\" \"koalagate %s\" \"koalagate\"\n", roff(strings.ToUpper(manualName(c))), date.Format("Jan 2006"), roff(b.version))
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&page, ".SH %s\n%s\n", title, text)
		}
	}
	section("NAME", roff(manualName(c))+` \- `+roff(c.Short))
	section("SYNOPSIS", bold(roff(c.UseLine())))
	section("DESCRIPTION", marked(description(c)))
	section("OPTIONS", manualFlags(c.NonInheritedFlags()))
	section("OPTIONS OF ALL COMMANDS", manualFlags(c.InheritedFlags()))
	if c.Example != "" {
		section("EXAMPLES", ".EX\n"+roff(c.Example)+"\n.EE")
	}
	var related []string
	if c.HasParent() {
		related = append(related, manualName(c.Parent()))
	}
	for _, sub := range documented(c) {
		related = append(related, manualName(sub))
	}
	for i, name := range related {
		related[i] = bold(roff(name)) + "(1)"
	}
	section("SEE ALSO", strings.Join(related, ",\n"))
	return page.String()
}

func description(c *cobra.Command) string {
	if c.Long == "" {
		return c.Short
	}
	return c.Long
}

// manualFlags returns the paragraphs of flags, without a line break at the end.
func manualFlags(flags *pflag.FlagSet) string {
	var list []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" {
			return
		}
		name := bold(roff("--" + flag.Name))
		if flag.Shorthand != "" {
			name = bold(roff("-"+flag.Shorthand)) + ", " + name
		}
		value, usage := pflag.UnquoteUsage(flag)
		if value != "" {
			name += ` \fI` + roff(value) + `\fP`
		}
		if !strings.Contains(usage, "(default") && !slices.Contains([]string{"", "false", "0", "0s", "[]"}, flag.DefValue) {
			usage += fmt.Sprintf(" (default %s)", flag.DefValue)
		}
		list = append(list, ".TP\n"+name+"\n"+marked(usage))
	})
	return strings.Join(list, "\n")
}

func bold(text string) string { return `\fB` + text + `\fP` }

// marked returns text in roff, with parts between backquotes in bold.
func marked(text string) string {
	parts := strings.Split(roff(text), "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = bold(parts[i])
	}
	return strings.Join(parts, "")
}

// roffEscapes replaces what roff would read as an escape or a request, and hyphens, which
// roff would display as a character that no shell reads as one.
var roffEscapes = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// roff returns text as roff displays it.
func roff(text string) string {
	return strings.TrimPrefix(roffEscapes.Replace("\n"+text), "\n")
}
