package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/service"
)

func (p *program) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve --rules PATH…",
		Short: "Run the service that answers gateways",
		Long: "Run the service that answers gateways. SIGTERM drains and ends it; a second SIGTERM ends it at once.\n" +
			"Rule files are reloaded when they change; SIGHUP reloads them now.\n" +
			"Every flag has an environment variable: KOALAGATE_RULES for --rules. Most settings have no flag:\n" +
			"set them in the environment or in the --config file; `koalagate config print` lists all.",
		Example: "  koalagate serve --rules rules.conf\n" +
			"  koalagate serve --rules rules.d/ --redis redis://127.0.0.1:6379\n" +
			"  koalagate serve --config /etc/koalagate/koalagate.yaml\n" +
			"  KOALAGATE_LOG_REFUSALS=true koalagate serve --rules rules.conf --log-format text",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q; set rule files with --rules PATH", args[0])
			}
			return nil
		},
	}
	s := addSettings(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load(p.environ)
		if err != nil {
			return err
		}
		if len(loaded.Rules) == 0 {
			return errors.New("no rule files; set --rules PATH, KOALAGATE_RULES, or rules in the --config file")
		}
		return p.serve(c.Context(), loaded)
	}
	return c
}

// serve runs the service until a signal ends it.
func (p *program) serve(ctx context.Context, loaded *config.Loaded) error {
	signal.Ignore(syscall.SIGPIPE) // a log whose reader has ended must not end the process
	hangup, stop := make(chan os.Signal, 1), make(chan os.Signal, 2)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	s, err := service.Open(ctx, service.Options{Config: loaded, Log: p.stderr, Version: thisBuild().page(), Environ: p.environ})
	if err != nil {
		return p.rulesFailure(err)
	}
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	if err := s.Run(ctx, stop, hangup); err != nil {
		return failure{err}
	}
	return nil
}

// rulesFailure returns the failure of a service that did not open, and prints the
// findings if rules are the reason.
func (p *program) rulesFailure(err error) error {
	var faulty *reload.FindingsError
	if errors.As(err, &faulty) {
		findings.WriteText(p.stderr, faulty.Findings)
		return failed("the rules have errors; fix them and start again")
	}
	return failure{err}
}
