package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/reload"
)

func (p *program) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check PATH…",
		Short: "Report mistakes in rule files",
		Long: "Report mistakes in rule files, which are read as `serve` reads them. PATH is a file, a folder\n" +
			"of *.conf files, or - for the standard input.\n" +
			"For a valid rule set the last line is the number of files, rules and warnings, and the hash\n" +
			"that /readyz shows when the set is active.\n" +
			"The exit code is 0 without errors, 1 with an error (with --strict also with a warning), and\n" +
			"2 for an invalid command line. docs/findings.md explains each finding and its fix.",
		Example: "  koalagate check rules/\n  koalagate check --format github --strict rules.conf",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("nothing to check; name a rule file, a folder, or - for the standard input")
			}
			return nil
		},
	}
	var files reload.Files
	strict := c.Flags().Bool("strict", false, "treat warnings as errors")
	format := choice{value: findings.Text, among: findings.Formats()}
	c.Flags().Var(&format, "format", "`FORMAT` of the findings: text, json (docs/formats.md) or github (workflow annotations)")
	addParserFlags(c, &files)
	c.RunE = func(_ *cobra.Command, args []string) error {
		files.Paths, files.Stdin = args, p.stdin
		set, list, err := files.Load()
		if err != nil {
			return failure{err}
		}
		// The findings are the result of this command, so they go to the standard
		// output.
		if err := findings.Write(p.stdout, format.value, set, list); err != nil {
			return failure{err}
		}
		if list.HasErrors() || *strict && len(list) > 0 {
			return errReported
		}
		return nil
	}
	return c
}
