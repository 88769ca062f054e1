package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

func (p *program) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "import",
		Short:   "Print the limits of another program as a rule file",
		Example: "  koalagate import envoyproxy-ratelimit limits.yaml > rules.conf",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return errors.New("missing format; want envoyproxy-ratelimit") },
	}
	c.AddCommand(p.importRateLimitCommand())
	return c
}

func (p *program) importRateLimitCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "envoyproxy-ratelimit FILE…",
		Short: "Print limits of envoyproxy/ratelimit as a rule file",
		Long: "Print the limits in YAML files of envoyproxy/ratelimit as a rule file. Limits that no rule can\n" +
			"express are comments in it, and are reported on the standard error; the exit code is then 1.\n" +
			"`koalagate ratelimit` serves all limits without a conversion.",
		Example: "  koalagate import envoyproxy-ratelimit limits.yaml > rules.conf",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("nothing to import; name a YAML file")
			}
			return nil
		},
	}
	merge := c.Flags().Bool("merge", false, "let several files have limits of one domain")
	c.RunE = func(_ *cobra.Command, args []string) error {
		set, err := compileLimits(args, *merge)
		if err != nil {
			return err
		}
		text, problems := set.Rules()
		fmt.Fprint(p.contents, text)
		for _, problem := range problems {
			fmt.Fprintf(p.stderr, "not converted: %s\n", problem)
		}
		if len(problems) > 0 {
			return errReported
		}
		return nil
	}
	return c
}

// compileLimits compiles YAML files of envoyproxy/ratelimit, of which several may have
// limits of one domain if merge is true.
func compileLimits(names []string, merge bool) (*envoylimits.Set, error) {
	configs := make([]*envoylimits.Config, len(names))
	for i, name := range names {
		text, err := os.ReadFile(name) //nolint:gosec // the caller names the file
		if err != nil {
			return nil, failure{err}
		}
		if configs[i], err = envoylimits.Read(name, text); err != nil {
			return nil, failure{err}
		}
	}
	set, err := envoylimits.Compile(configs, merge)
	if err != nil {
		return nil, failure{err}
	}
	return set, nil
}
