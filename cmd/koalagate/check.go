package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/reload"
	"github.com/koalagate/koalagate/rules"
)

func (p *program) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check PATH…",
		Short: "Find the faults of rule files",
		Long: "Find the faults of rule files, as `serve` reads them: files, and folders of *.conf.\n" +
			"Exit code 0 without errors, 1 with an error (with --strict a warning too), 2 for a wrong command line.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("there is nothing to check; give a rule file or a folder")
			}
			return nil
		},
	}
	files := reload.Files{}
	strict := c.Flags().Bool("strict", false, "take warnings for errors")
	addFileFlags(c, &files)
	c.RunE = func(_ *cobra.Command, args []string) error {
		files.Paths = args
		return p.check(files, *strict)
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

func (p *program) check(files reload.Files, strict bool) error {
	_, findings, err := files.Load()
	if err != nil {
		return failure{err}
	}
	printFindings(p.stdout, findings) // they are what was asked for
	if findings.HasErrors() || strict && len(findings) > 0 {
		return errTold
	}
	return nil
}

// printFindings writes findings for people, each with its line and a caret
// under the place.
func printFindings(w io.Writer, findings rules.Findings) {
	for _, f := range findings {
		fmt.Fprintln(w, f.Text())
	}
}
