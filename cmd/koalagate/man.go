package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
			// Equal builds write equal pages: they have the date of the build.
			b := thisBuild()
			date, err := time.Parse(time.RFC3339, b.date)
			if err != nil {
				date = time.Unix(0, 0).UTC()
			}
			root := c.Root()
			root.InitDefaultHelpCmd()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Date: &date, Source: "koalagate " + b.version, Manual: "koalagate"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return failure{err}
			}
			return nil
		},
	}
}
