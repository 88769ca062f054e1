package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration",
		Args:  noArguments,
		RunE:  func(*cobra.Command, []string) error { return errors.New("a command is missing: config print") },
	}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print every option, its value and where that comes from",
		Long:  "Print every option as a configuration file would say it, and where its value comes from:\nflags beat the environment, which beats the file, which beats the defaults. Secrets are masked.",
		Args:  noArguments,
	}
	s := addSettings(show)
	show.RunE = func(*cobra.Command, []string) error {
		loaded, err := s.load(p.environ)
		if err != nil {
			return err
		}
		return loaded.Dump(p.stdout)
	}
	group.AddCommand(show)
	return group
}
