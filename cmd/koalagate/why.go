package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/operations"
)

// whyFlags are the flags of `koalagate why`.
type whyFlags struct {
	instance instance
	request  requestFlag
	headers  http.Header
	metadata metadataFlag
	peer     addressFlag
	door     choice
	format   choice
}

func (p *program) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "why [--request 'METHOD /path'] [NAME=VALUE…]",
		Short: "Ask a running instance why a client is limited",
		Long: "Ask a running instance which rules limit an identity or a request: each counter as it stands, the ban,\n" +
			"the rule that would decide now, and the last refusals at this instance. Nothing is counted.\n\n" +
			"NAME=VALUE names an identity: the rules that count by one of the parameters are shown, with the\n" +
			"parameters that are missing. With --request or --door it is a parameter that the gateway's\n" +
			"configuration adds, and the rules that the request meets are shown. With --door ratelimit these\n" +
			"are the domain and the entries of a descriptor in their order; in place of envoyproxy/ratelimit\n" +
			"the limit of the descriptor is shown, too.",
		Example: "  koalagate why uid=ann\n" +
			"  koalagate why uid@client-ip=203.0.113.7\n" +
			"  koalagate why --request 'POST /api/comments' -H 'X-User-Id: ann' --peer 203.0.113.7\n" +
			"  koalagate why --request 'GET /x' --metadata 'envoy.filters.http.jwt_authn payload.sub=ann'\n" +
			"  koalagate why --door ratelimit domain=edge remote_address=203.0.113.7",
	}
	o := &whyFlags{instance: instance{installed: p.installed}, headers: http.Header{}, metadata: metadataFlag{}, door: choice{among: doorname.All()}, format: choice{value: "text", among: []string{"text", "json"}}}
	o.instance.add(c)
	f := c.Flags()
	f.Var(&o.request, "request", "request of the client as `'METHOD TARGET'`; the target is a path or a URL")
	f.VarP(headerFlag{o.headers}, "header", "H", "`'NAME: VALUE'` of a request header; repeatable")
	f.Var(o.metadata, "metadata", "`'NAMESPACE PATH=VALUE'` of Envoy's dynamic metadata; repeatable")
	f.Var(&o.door, "door", "`DOOR` that receives the gateway's call: "+strings.Join(doorname.All(), ", ")+" (default extauthz)")
	f.Var(&o.peer, "peer", "client `ADDRESS` as the gateway sees it")
	f.Var(&o.format, "format", "`FORMAT` of the answer: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, args []string) error { return p.why(c.Context(), o, args) }
	return c
}

// why carries out `koalagate why`.
func (p *program) why(ctx context.Context, o *whyFlags, args []string) error {
	q, err := o.question(args)
	if err != nil {
		return err
	}
	switch {
	case o.door.value == doorname.RateLimit:
	case o.request.target != "" || o.door.value != "":
		q.Request = &operations.Request{
			Door: o.door.value, Method: o.request.method, Target: o.request.target, Headers: o.headers, Peer: o.peer.String(),
			Metadata: explain.Metadata(o.metadata),
		}
	case len(o.headers)+len(o.metadata) > 0 || o.peer != "":
		return errors.New("headers, metadata and a peer need a request; set --request 'METHOD /path' or --door")
	case len(q.Params) == 0:
		return errors.New("no question; set --request 'METHOD /path', or parameters such as uid=ann")
	}
	var w operations.Why
	if err := o.instance.call(ctx, p.environ, http.MethodPost, "why", &q, &w); err != nil {
		return err
	}
	if o.format.value == "json" {
		return display.JSON(p.stdout, &w)
	}
	p.writeWhy(&w)
	return nil
}

// question returns the question without the request of a client. At the rate limit
// service, the arguments are the entries of a descriptor in their order, and its domain.
func (o *whyFlags) question(args []string) (*operations.Question, error) {
	if o.door.value != doorname.RateLimit {
		identity, err := parseIdentity(args)
		return &operations.Question{Params: identity}, err
	}
	if o.request.target != "" || len(o.headers)+len(o.metadata) > 0 || o.peer != "" {
		return nil, errors.New("the door ratelimit receives no request, headers, metadata or peer; use NAME=VALUE for the domain and the entries of a descriptor")
	}
	entries, err := parseEntries(args)
	q := &operations.Question{Params: operations.Identity{}, Request: &operations.Request{Door: o.door.value}}
	for _, e := range entries {
		if e.Key == "domain" {
			q.Params[e.Key] = e.Value
			continue
		}
		q.Request.Descriptor = append(q.Request.Descriptor, operations.Entry(e))
	}
	return q, err
}

// writeWhy writes an answer as text.
func (p *program) writeWhy(w *operations.Why) {
	out := p.stdout
	switch {
	case w.Refused != "":
		display.Printf(out, "%s before any rule: %s\n", w.Verdict, w.Refused)
		return
	case w.Ban != nil:
		display.Printf(out, "%s by exception %s: banned from everything until %s\n", w.Verdict, w.Ban.Exception, w.Ban.Until.Format(time.RFC3339))
	case w.Decider != 0:
		display.Printf(out, "%s by rule %d\n", w.Verdict, w.Decider)
	case w.Imported != nil && w.Imported.Outcome == explain.Decides:
		display.Printf(out, "%s by limit %s\n", w.Verdict, w.Imported.Path)
	default:
		display.Printf(out, "%s: no rule refuses\n", w.Verdict)
	}
	if w.WaitMS > 0 {
		display.Printf(out, "it would wait %s for its turn\n", spanText(w.WaitMS))
	}
	if w.Degraded {
		fmt.Fprintln(out, "Redis is unavailable: these are the counters of this instance")
	}
	for i := range w.Tokens {
		fmt.Fprintln(out, w.Tokens[i].String())
	}
	if w.Imported != nil {
		p.writeImported(w.Imported)
	} else if len(w.Rules) == 0 {
		fmt.Fprintln(out, "no rule counts by these parameters; check their names in the rule files")
	}
	for i := range w.Rules {
		p.writeWhyRule(&w.Rules[i])
	}
	if len(w.Refusals) > 0 {
		display.Printf(out, "\nlast refusals at this instance\n")
	}
	for _, r := range w.Refusals {
		by := fmt.Sprintf("rule %d", r.Rule)
		if r.Rule == 0 {
			by = "limit"
		}
		display.Printf(out, "  %s  %s at %s\n", r.At.Format(time.RFC3339), by, r.Door)
	}
}

// writeWhyRule writes what a rule does with the requests of the question.
func (p *program) writeWhyRule(r *operations.WhyRule) {
	label := strconv.FormatInt(r.Rule, 10)
	if r.Name != "" {
		label += " (" + r.Name + ")"
	}
	display.Printf(p.stdout, "\nrule %s\n", label)
	if r.Identity != nil {
		display.Printf(p.stdout, "  identity   %s\n", r.Identity)
	}
	if r.Counted {
		display.Printf(p.stdout, "  counter    %s\n", counterText(r))
	}
	p.writeLent(r.Lent)
	if r.Exception != "" {
		display.Printf(p.stdout, "  exception  %s\n", r.Exception)
	}
	display.Printf(p.stdout, "  why        %s\n", whyText(r))
}

// writeLent writes what gateways hold of a limit, nothing if none holds any.
func (p *program) writeLent(l *operations.WhyLent) {
	if l != nil {
		display.Printf(p.stdout, "  lent       %g of %g hits per second, to gateways that decide by themselves: %d\n", l.PerSecond, l.Of, l.Holders)
	}
}

// writeImported writes the imported limit of a descriptor.
func (p *program) writeImported(x *operations.WhyImported) {
	if x.Outcome == explain.NotMet {
		display.Printf(p.stdout, "no limit applies: %s\n", x.Reason)
		return
	}
	display.Printf(p.stdout, "\nlimit %s\n", x.Path)
	if x.Name != "" {
		display.Printf(p.stdout, "  name       %s\n", x.Name)
	}
	display.Printf(p.stdout, "  limit      %s\n", x.Limit)
	if x.Counted {
		display.Printf(p.stdout, "  counter    %d used of %d, %d remaining, the window ends in %s\n", x.Used, x.Max, x.Remaining, spanText(x.ResetMS))
	}
	if x.Exception != "" {
		display.Printf(p.stdout, "  exception  %s\n", x.Exception)
	}
	display.Printf(p.stdout, "  outcome    %s\n", x.Outcome)
}

// whyText returns why the requests of a question meet a rule or not.
func whyText(r *operations.WhyRule) string {
	if r.Matched {
		return "met: " + r.Why
	}
	return "not met: " + r.Why
}

// counterText returns the state of a counter in words.
func counterText(r *operations.WhyRule) string {
	text := fmt.Sprintf("%d used of %d, %d remaining", r.Used, r.Limit, r.Remaining)
	if r.Leased > 0 {
		text += fmt.Sprintf(", up to %d of the used held in advance by other instances", r.Leased)
	}
	if r.ResetMS > 0 && r.BannedMS == 0 {
		text += ", empty again in " + spanText(r.ResetMS)
	}
	switch {
	case r.BannedMS > 0:
		text += "; banned for another " + spanText(r.BannedMS)
	case r.RetryMS > 0:
		text += "; refuses for another " + spanText(r.RetryMS)
	case r.RetryMS < 0:
		text += "; refuses always"
	}
	return text
}

// spanText returns a number of milliseconds in words.
func spanText(ms int64) string {
	d := time.Duration(min(ms, int64(1<<62)/int64(time.Millisecond))) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
