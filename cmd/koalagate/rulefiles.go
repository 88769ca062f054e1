package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// addRulesFlags adds --rules and the flags of addParserFlags to a command.
func addRulesFlags(c *cobra.Command, files *reload.Files) {
	c.Flags().StringArrayVar(&files.Paths, "rules", nil, "`PATH` of a rule file, or of a folder with *.conf files; repeatable")
	addParserFlags(c, files)
}

// addParserFlags adds the flags that change how rule files are parsed.
func addParserFlags(c *cobra.Command, files *reload.Files) {
	files.Rules.Now = time.Now
	f := c.Flags()
	f.StringVar(&files.DictRoot, "dict-root", "", "base `DIR` for the paths of word lists (default: the folder of the rule file)")
	f.StringVar(&files.Rules.Timezone, "timezone", "", "time `ZONE` of rule sets that name none (default "+rules.DefaultTimezone+")")
	f.BoolVar(&files.Rules.RequireEnd, "require-end", false, "require [end] at the end of every file")
	f.BoolVar(&files.Rules.AllowEmpty, "allow-empty-rules", false, "accept a rule set without rules")
}

// loadRules reads the rule files of a command and prints their findings to the
// standard error. The error is errReported if a finding is an error.
func (p *program) loadRules(files reload.Files) (*rules.Set, error) {
	if len(files.Paths) == 0 && len(files.Own) == 0 {
		return nil, errors.New("no rule files; set --rules PATH")
	}
	set, list, err := files.Load()
	if err != nil {
		return nil, failure{err}
	}
	findings.WriteText(p.stderr, list)
	if list.HasErrors() {
		return nil, errReported
	}
	return set, nil
}
