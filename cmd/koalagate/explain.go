package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/service"
)

// explainFlags are the flags of `koalagate explain`.
type explainFlags struct {
	files   reload.Files
	options explain.Options
	request requestFlag
	peer    addressFlag
	door    choice
	paths   choice
	format  choice
	all     bool
	limits  []string
}

func (p *program) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain --rules PATH… [--request 'METHOD /path'] [NAME=VALUE…]",
		Short: "Explain which rules a request meets",
		Long: "Explain which rules a request meets, in evaluation order: what each rule counts, which\n" +
			"conditions fail, and the verdict. The verdict is for a first request; no counter is\n" +
			"read or changed. `koalagate why` reads a running instance's counters: what is used, until when\n" +
			"an identity is banned, and how long a request would wait.\n\n" +
			"NAME=VALUE sets a rule parameter. With --request or --door, the door derives parameters\n" +
			"from the request, and NAME=VALUE is what the gateway's configuration adds: context extensions,\n" +
			"arguments of the check's URL, entries of a descriptor, arguments of Koala's API, or parameters\n" +
			"that a Go program sets with the middleware.",
		Example: "  koalagate explain --rules rules.conf act=vote uid=7\n" +
			"  koalagate explain --rules rules.conf --request 'POST /api/comments' -H 'X-User-Id: ann' --peer 203.0.113.7\n" +
			"  koalagate explain --rules rules.conf --request 'GET /x' --metadata 'envoy.filters.http.jwt_authn payload.sub=ann'\n" +
			"  koalagate explain --rules rules.conf --door ratelimit domain=edge remote_address=203.0.113.7",
	}
	o := &explainFlags{
		files: reload.Files{Stdin: p.stdin}, options: explain.Options{Headers: http.Header{}, Metadata: explain.Metadata{}},
		door: choice{among: doorname.All()}, paths: choice{value: "refuse", among: []string{"refuse", "keep"}},
		format: choice{value: "text", among: []string{"text", "json"}},
	}
	o.add(c)
	c.RunE = func(c *cobra.Command, args []string) error { return p.explain(c.Context(), o, args) }
	return c
}

// add adds the flags to the command.
func (o *explainFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.Var(&o.request, "request", "request of the client as `'METHOD TARGET'`; the target is a path or a URL")
	f.VarP(headerFlag{o.options.Headers}, "header", "H", "`'NAME: VALUE'` of a request header; repeatable")
	f.Var(&o.door, "door", "`DOOR` that receives the gateway's call: "+strings.Join(doorname.All(), ", ")+" (default extauthz)")
	f.Var(&o.peer, "peer", "client `ADDRESS` as the gateway sees it")
	f.Var(metadataFlag(o.options.Metadata), "metadata", "`'NAMESPACE PATH=VALUE'` of Envoy's dynamic metadata; repeatable")
	f.StringVar(&o.options.Principal, "principal", "", "`NAME` in the client's certificate, as Envoy reports it")
	f.StringVar(&o.options.SNI, "sni", "", "server `NAME` of the client's TLS connection, as Envoy reports it")
	f.IntVar(&o.options.TrustedHops, "trusted-hops", 0, "`NUMBER` of entries to skip at the right end of X-Forwarded-For, as in the service's trusted_hops")
	f.Var(&o.paths, "malformed-paths", "`WHAT` to do with a path that cannot be decoded, as in the service's malformed_paths: refuse or keep")
	f.Uint64Var(&o.options.Hits, "hits", 1, "number of `HITS` that the request stands for")
	f.StringArrayVar(&o.limits, "limits", nil, "`FILE` with limits of envoyproxy/ratelimit, which come before the rules at the door ratelimit; repeatable")
	f.Var(&o.format, "format", "`FORMAT` of the explanation: text or json (docs/formats.md)")
	f.BoolVar(&o.all, "all", false, "show every rule; by default, if more than "+strconv.Itoa(explain.MaxNotMet)+" rules are not met, text shows only the nearest of them (json shows all)")
	addRulesFlags(c, &o.files)
}

// explain carries out `koalagate explain`.
func (p *program) explain(ctx context.Context, o *explainFlags, args []string) error {
	o.options.Method, o.options.Target = o.request.method, o.request.target
	o.options.Peer, o.options.Door = o.peer.String(), o.door.value
	o.options.NoHits = o.options.Hits == 0
	o.options.KeepMalformedPaths = o.paths.value == "keep"
	var err error
	if o.options.Params, err = parseEntries(args); err != nil {
		return err
	}
	if err := o.readLimits(); err != nil {
		return err
	}
	question, err := explain.New(o.options)
	if err != nil {
		return err
	}
	if len(o.limits) > 0 && len(o.files.Paths) == 0 {
		o.files = service.NoRules()
	}
	set, err := p.loadRules(o.files)
	if err != nil {
		return err
	}
	for _, hint := range question.Hints(set) {
		fmt.Fprintf(p.stderr, "koalagate: %s\n", hint)
	}
	report, err := question.Answer(ctx, set)
	switch {
	case err != nil:
		return failure{err}
	case o.format.value == "json":
		return report.WriteJSON(p.stdout)
	}
	report.WriteText(p.stdout, explain.TextOptions{All: o.all, Color: p.colors})
	return nil
}

// readLimits reads the imported limits, which files may have for one domain.
func (o *explainFlags) readLimits() (err error) {
	if len(o.limits) == 0 {
		return nil
	}
	if o.options.Door == "" && o.options.Target == "" {
		o.options.Door = doorname.RateLimit
	}
	if o.options.Door != doorname.RateLimit {
		return errors.New("limits of envoyproxy/ratelimit decide at the door ratelimit; remove --limits, or set --door ratelimit")
	}
	o.options.Limits, err = compileLimits(o.limits, true)
	return err
}
