package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

func (p *program) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check PATH…",
		Short: "Find the faults of rule files",
		Long: "Find the faults of rule files, as `serve` reads them: files, folders of *.conf, and - for\n" +
			"the standard input.\n" +
			"Exit code 0 without errors, 1 with an error (with --strict a warning too), 2 for a wrong command line.\n" +
			"docs/findings.md has an example of each finding and its mending.",
		Example: "  koalagate check rules/\n  koalagate check --format github --strict rules.conf",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("there is nothing to check; give a rule file, a folder, or - for the standard input")
			}
			return nil
		},
	}
	files := reload.Files{}
	strict := c.Flags().Bool("strict", false, "take warnings for errors")
	format := choice{value: "text", among: []string{"text", "json", "github"}}
	c.Flags().Var(&format, "format", "`FORMAT` of the findings: text, json (docs/formats.md) or github (annotations of a workflow)")
	addFileFlags(c, &files)
	c.RunE = func(_ *cobra.Command, args []string) error {
		files.Paths, files.Stdin = args, p.stdin
		return p.check(files, format.value, *strict)
	}
	return c
}

// addFileFlags puts what changes the reading of rule files on a command.
func addFileFlags(c *cobra.Command, files *reload.Files) {
	c.Flags().StringVar(&files.DictRoot, "dict-root", "", "`DIR` that the paths of word lists start from (default: the rule file's folder)")
	c.Flags().StringVar(&files.Rules.Timezone, "timezone", "", "`ZONE` of the days of rule sets that state none (default "+rules.DefaultTimezone+")")
	c.Flags().BoolVar(&files.Rules.RequireEnd, "require-end", false, "want [end] at the end of every file")
	c.Flags().BoolVar(&files.Rules.AllowEmpty, "allow-empty-rules", false, "accept a rule set without any rule")
}

func (p *program) check(files reload.Files, format string, strict bool) error {
	_, findings, err := files.Load()
	if err != nil {
		return failure{err}
	}
	// They are what was asked for, and so belong to the standard output.
	switch format {
	case "json":
		err = writeFindings(p.stdout, findings)
	case "github":
		annotate(p.stdout, findings)
	default:
		printFindings(p.stdout, findings)
	}
	if err != nil {
		return failure{err}
	}
	if findings.HasErrors() || strict && len(findings) > 0 {
		return errTold
	}
	return nil
}
