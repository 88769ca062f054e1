package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/apiclient"
)

func (p *program) healthcheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Report whether the instance on this machine is ready",
		Long: "Request /readyz of the instance on this machine, and exit with 0 if it is ready, otherwise with 1.\n" +
			"The command is for images without a shell. It reads the admin address, and whether it uses TLS, from\n" +
			"the environment and the --config file, as serve does. It verifies the certificate only with --ca.",
		Example: "  koalagate healthcheck\n" +
			"  koalagate healthcheck --admin unix:/run/koalagate/admin.sock\n" +
			"  koalagate healthcheck --admin https://127.0.0.1:9982 --live",
		Args: noArguments,
	}
	i := instance{installed: p.installed}
	live := false
	i.addAddress(c, 3*time.Second)
	c.Flags().StringVar(&i.tls.CA, "ca", "", "PEM `FILE` of the authorities for the certificate (default: the certificate is not verified)")
	c.Flags().BoolVar(&live, "live", false, "request /healthz: the process answers, whether it is ready or not")
	c.RunE = func(c *cobra.Command, _ []string) error {
		target, err := i.target(p.environ)
		if err != nil {
			return err
		}
		if target.Path = "/readyz"; live {
			target.Path = "/healthz"
		}
		if target.TLS != nil {
			// As in probes of Kubernetes: the check sends no secret, and certificates
			// rarely name the loopback address.
			target.TLS.InsecureSkipVerify = i.tls.CA == ""
		}
		ctx, cancel := context.WithTimeout(c.Context(), i.timeout)
		defer cancel()
		if err := apiclient.Check(ctx, target); err != nil {
			return failure{err}
		}
		fmt.Fprintln(p.stdout, "ok")
		return nil
	}
	return c
}
