package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	group := &cobra.Command{
		Use:     "config",
		Short:   "Show the configuration",
		Example: "  koalagate config print --config koalagate.yaml",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return errors.New("missing command; want config print") },
	}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print every setting with its value and origin",
		Long:  "Print every setting in the format of the configuration file, with the origin of its value.\nFlags override the environment, which overrides the file, which overrides the defaults.\nSecrets are masked.",
		Example: "  koalagate config print\n" +
			"  koalagate config print --config koalagate.yaml --redis redis://127.0.0.1:6379\n" +
			"  KOALAGATE_REDIS_BUDGET=50ms koalagate config print | grep redis_",
		Args: noArguments,
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
