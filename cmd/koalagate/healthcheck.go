package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/admin"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/probe"
)

// healthcheck holds the flags of the command.
type healthcheck struct {
	file, admin string
	live        bool
	timeout     time.Duration
	tls         probe.TLSFiles
}

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
	var h healthcheck
	f := c.Flags()
	f.StringVar(&h.file, configFlag, "", "YAML `FILE` with settings")
	f.StringVar(&h.admin, "admin", "", "`ADDRESS` instead of the configured one: host:port, unix:/path or https://host:port")
	f.BoolVar(&h.live, "live", false, "request /healthz: the process answers, whether it is ready or not")
	f.DurationVar(&h.timeout, "timeout", 3*time.Second, "maximum time for the answer")
	f.StringVar(&h.tls.CA, "ca", "", "PEM `FILE` of the authorities for the certificate (default: the certificate is not verified)")
	f.StringVar(&h.tls.Cert, "cert", "", "PEM `FILE` of a client certificate, for admin_tls_client_ca")
	f.StringVar(&h.tls.Key, "key", "", "PEM `FILE` of the certificate's key")
	f.StringVar(&h.tls.ServerName, "server-name", "", "`NAME` in the certificate (default: the host of the address, or localhost)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if h.timeout <= 0 {
			return errors.New("--timeout must be above 0")
		}
		target, err := h.target(p.environ)
		if err != nil {
			return failure{err}
		}
		ctx, cancel := context.WithTimeout(c.Context(), h.timeout)
		defer cancel()
		if err := admin.Check(ctx, target); err != nil {
			return failure{err}
		}
		fmt.Fprintln(p.stdout, "ok")
		return nil
	}
	return c
}

// target returns the page to request. Without --admin it reads the settings.
func (h *healthcheck) target(environ []string) (admin.Target, error) {
	t := admin.Target{Address: h.admin, Path: "/readyz"}
	if h.live {
		t.Path = "/healthz"
	}
	scheme := "http"
	if address, ok := strings.CutPrefix(h.admin, "https://"); ok {
		t.Address, scheme = address, "https"
	}
	if h.admin == "" {
		in := config.Input{File: h.file, Environ: environ}
		if in.File == "" {
			in.File = variable(environ, "KOALAGATE_CONFIG")
		}
		loaded, err := config.Load(in)
		if err != nil {
			return t, fmt.Errorf("cannot read the settings; correct them, or set --admin: %w", err)
		}
		t.Address = loaded.AdminAddr
		if loaded.AdminTLSCert != "" {
			scheme = "https"
		}
	}
	if !config.IsListenAddress(t.Address) {
		return t, fmt.Errorf("--admin is %q; want host:port, unix:/path or https://host:port", h.admin)
	}
	var err error
	if t.TLS, err = h.tls.Config(scheme); t.TLS == nil || err != nil {
		return t, err
	}
	h.verify(t.TLS, t.Address)
	return t, nil
}

// verify configures how the certificate is verified. Without --ca it is not, as in
// probes of Kubernetes: the check sends no secret, and certificates rarely name the
// loopback address.
func (h *healthcheck) verify(config *tls.Config, address string) {
	config.InsecureSkipVerify = h.tls.CA == ""
	if config.ServerName != "" {
		return
	}
	config.ServerName = "localhost"
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
		config.ServerName = host
	}
}
