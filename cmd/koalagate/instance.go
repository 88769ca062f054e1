package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/apiclient"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/env"
	"github.com/koalagate/koalagate/internal/probe"
)

// adminVariable is the environment variable with the admin address for commands.
const adminVariable = "KOALAGATE_ADMIN"

// instance are the flags of all commands that ask a running instance.
type instance struct {
	file, admin, token string
	author             string // of changes in the audit trail; "" for the user and the host
	timeout            time.Duration
	tls                probe.TLSFiles
	installed          installed
	loaded             *config.Loaded // nil with --admin
}

// addAddress adds the flags of the admin address.
func (i *instance) addAddress(c *cobra.Command, timeout time.Duration) {
	f := c.Flags()
	f.StringVar(&i.file, configFlag, "", "YAML `FILE` with settings (default: "+settingsFile("/etc")+", if a package has installed it)")
	f.StringVar(&i.admin, "admin", "", "`ADDRESS` instead of "+adminVariable+" or the configured one: host:port, unix:/path or https://host:port")
	f.DurationVar(&i.timeout, "timeout", timeout, "maximum `DURATION` until the answer")
	f.StringVar(&i.tls.Cert, "cert", "", "PEM `FILE` of a client certificate, for admin_tls_client_ca")
	f.StringVar(&i.tls.Key, "key", "", "PEM `FILE` of the certificate's key")
	f.StringVar(&i.tls.ServerName, "server-name", "", "`NAME` in the certificate (default: the host of the address, or localhost)")
}

// add adds all flags.
func (i *instance) add(c *cobra.Command) {
	i.addAddress(c, 30*time.Second)
	f := c.Flags()
	f.StringVar(&i.tls.CA, "ca", "", "PEM `FILE` of the authorities for the certificate (default: the system's)")
	f.StringVar(&i.token, "token-file", "", "`FILE` with the token (default: the configured one, or the token of this user's instance on this host)")
}

// target returns the admin address. Without --admin and KOALAGATE_ADMIN it reads the
// settings: of --config, of KOALAGATE_CONFIG, or of the service that a package installed.
func (i *instance) target(environ []string) (apiclient.Target, error) {
	if i.timeout <= 0 {
		return apiclient.Target{}, errors.New("--timeout must be above 0")
	}
	given := i.admin
	if given == "" {
		given = env.Value(environ, adminVariable)
	}
	address, isTLS := strings.CutPrefix(given, "https://")
	if given == "" {
		in := config.Input{File: i.file, Environ: environ, Caller: true}
		if in.File == "" {
			in.File = env.Value(environ, "KOALAGATE_CONFIG")
		}
		if in.File == "" {
			var err error
			if in.File, in.Environ, err = i.installed.settings(environ); err != nil {
				return apiclient.Target{}, failure{err}
			}
		}
		loaded, err := config.Load(in)
		if err != nil {
			return apiclient.Target{}, failure{fmt.Errorf("cannot read the settings; correct them, or set --admin: %w", err)}
		}
		i.loaded, address, isTLS = loaded, loaded.AdminAddr, loaded.AdminTLSCert != ""
	}
	t := apiclient.Target{Address: address}
	if !config.IsListenAddress(t.Address) {
		return t, failure{fmt.Errorf("--admin is %q; want host:port, unix:/path or https://host:port", given)}
	}
	scheme := "http"
	if isTLS {
		scheme = "https"
	}
	var err error
	if t.TLS, err = i.tls.Config(scheme); err != nil {
		return t, failure{err}
	}
	if t.TLS != nil && t.TLS.ServerName == "" {
		t.TLS.ServerName = "localhost"
		host, _, err := net.SplitHostPort(t.Address)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			t.TLS.ServerName = host
		}
	}
	return t, nil
}

// client returns a client of the API with the token.
func (i *instance) client(environ []string) (*apiclient.Client, error) {
	target, err := i.target(environ)
	if err != nil {
		return nil, err
	}
	c := &apiclient.Client{Target: target, Author: cmp.Or(i.author, author())}
	state := env.Value(environ, "KOALAGATE_STATE_DIR")
	switch {
	case i.token != "":
		if c.Token, err = access.ReadFile(i.token); err != nil {
			return nil, failure{fmt.Errorf("--token-file: %w", err)}
		}
		return c, nil
	case i.loaded != nil:
		state = i.loaded.StateDir
		c.Token = i.loaded.AdminToken.Reveal()
		if c.Token == "" {
			c.Token = i.loaded.AdminReadToken.Reveal()
		}
		if c.Token == "" && i.loaded.Unread != nil {
			return nil, failure{fmt.Errorf("%w; use the command as a user who may read the file, such as by sudo, or set --token-file", i.loaded.Unread)}
		}
	}
	if made, found := access.Find(access.Dirs(environ, state), target.Address); found && (i.loaded == nil || i.loaded.AdminToken == "") {
		c.Token = made
	}
	return c, nil
}

// author returns the user and the host for the audit trail.
func author() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// call calls the API. Its errors have the exit codes of the commands: 1 if the instance
// refused or did not answer, 2 if the question is invalid, 3 for a conflict.
func (i *instance) call(ctx context.Context, environ []string, method, path string, in, out any) error {
	c, err := i.client(environ)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	err = c.Call(ctx, method, path, in, out)
	var p *adminapi.Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && p.Status == http.StatusBadRequest:
		return trouble{err}
	case errors.As(err, &p) && p.Status == http.StatusConflict:
		return conflict{err}
	}
	return failure{err}
}
