package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/probe"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// probeFlags are the flags of `koalagate probe`.
type probeFlags struct {
	options    probe.Options
	tls        probe.TLSFiles
	rules      reload.Files
	peer       addressFlag
	descriptor entriesFlag
}

func (p *program) probeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "probe URL",
		Short: "Test from outside whether requests are refused",
		Long: "Send requests to a URL behind a gateway, one after the other, until one is refused. Report\n" +
			"whether any is refused, with which status, headers and body, whether connections are kept,\n" +
			"and whether a client passes the limit by forging headers, or by varying or omitting a header,\n" +
			"a cookie or an argument of the query. With --rules, probe varies every source that [params]\n" +
			"reads.\n" +
			"grpc://HOST:PORT, grpcs://HOST:PORT (with TLS) and unix:/PATH call koalagate itself: its health\n" +
			"checks and ext_authz, or with --domain the rate limit service. The requests are real and count\n" +
			"against the limit that they reach.\n" +
			"--after tests whether the gateway reports the ends of requests, at a URL that a [hold] rule\n" +
			"limits: of successive requests, each must find as much left as the first.\n\n" +
			"The exit code is 0 without faults, 1 with faults, and 2 for an invalid command line.",
		Example: "  koalagate probe http://127.0.0.1:8080/api/comments --method POST --header 'X-User-Id: probe'\n" +
			"  koalagate probe http://127.0.0.1:8080/downloads/file --after\n" +
			"  koalagate probe grpc://127.0.0.1:9191 --path /api/comments --method POST\n" +
			"  koalagate probe grpc://127.0.0.1:9191 --domain public --descriptor remote_address=192.0.2.1\n" +
			"  koalagate probe grpcs://koalagate.internal:9191 --ca ca.crt --cert me.crt --key me.key --path /",
	}
	o := &probeFlags{peer: probe.DefaultPeer, options: probe.Options{
		Header: http.Header{}, OnItem: func(i probe.Item) { i.WriteText(p.stdout) },
	}}
	o.add(c)
	c.RunE = func(c *cobra.Command, args []string) error { return p.probe(c.Context(), o, args) }
	return c
}

// add adds the flags to the command.
func (o *probeFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&o.options.Requests, "requests", probe.DefaultRequests, "maximum number of `REQUESTS` until one is refused")
	f.DurationVar(&o.options.Timeout, "timeout", probe.DefaultTimeout, "maximum `DURATION` of each request")
	f.StringVar(&o.options.Method, "method", http.MethodGet, "`METHOD` of the requests")
	f.Var(headerFlag{o.options.Header}, "header", "`'NAME: VALUE'` of a header of the requests; repeatable")
	f.StringArrayVar(&o.options.Params, "param", []string{"act", "uid"}, "try to forge the parameter `NAME`; repeatable")
	f.BoolVar(&o.options.After, "after", false, "test instead whether the gateway reports the ends of requests, which a [hold] rule limits")
	addRulesFlags(c, &o.rules)
	f.StringVar(&o.tls.CA, "ca", "", "https, grpcs: trust only the authorities in this `FILE`")
	f.StringVar(&o.tls.Cert, "cert", "", "https, grpcs: `FILE` of the client certificate")
	f.StringVar(&o.tls.Key, "key", "", "https, grpcs: `FILE` of the key of the client certificate")
	f.StringVar(&o.tls.ServerName, "server-name", "", "https, grpcs: `NAME` in the server's certificate, if it differs from the URL")
	f.Var(&o.peer, "peer", "grpc: client `ADDRESS` of the request to ext_authz")
	f.StringVar(&o.options.Path, "path", "/", "grpc: `PATH` of the request to ext_authz")
	f.StringVar(&o.options.Domain, "domain", "", "grpc: call the rate limit service with this `DOMAIN`")
	f.Var(&o.descriptor, "descriptor", "grpc: `KEY=VALUE` of the descriptor; repeatable")
}

// probe carries out `koalagate probe`.
func (p *program) probe(ctx context.Context, o *probeFlags, args []string) error {
	if len(args) != 1 {
		return errors.New("want one URL: http://…, https://…, grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH")
	}
	var err error
	if o.options.Target, err = probe.ParseTarget(args[0]); err != nil {
		return err
	}
	if o.options.TLS, err = o.tls.Config(o.options.Target.Scheme); err != nil {
		return err
	}
	if len(o.rules.Paths) > 0 {
		o.rules.Stdin = p.stdin
		set, err := p.loadRules(o.rules)
		if err != nil {
			return err
		}
		o.options.Sources = clientSources(set)
	}
	o.options.Peer, o.options.Descriptor = o.peer.String(), o.descriptor
	report, err := probe.Run(ctx, o.options)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, report.Summary())
	if report.Faults() > 0 {
		return errReported
	}
	return nil
}

// clientSources returns the sources in [params] that clients can set.
func clientSources(set *rules.Set) []probe.Source {
	kinds := map[rules.SourceKind]probe.SourceKind{rules.FromHeader: probe.Header, rules.FromCookie: probe.Cookie, rules.FromQuery: probe.Query}
	var list []probe.Source
	for _, d := range set.Params {
		for _, s := range d.Sources {
			if kind, known := kinds[s.Kind]; known {
				list = append(list, probe.Source{Kind: kind, Name: s.Name})
			}
		}
	}
	return list
}
