package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

func (p *program) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain --rules PATH… [--request 'METHOD /path'] [NAME=VALUE…]",
		Short: "Say which rules a request meets, and why",
		Long: "Say which rules a request meets, in order, what each counts, which condition of the\n" +
			"others fails, and what the verdict is. It is that of a first request: no counter is\n" +
			"read or touched.\n\n" +
			"NAME=VALUE are the request's parameters. With --request or --door they are made of the\n" +
			"request as that door makes them, and NAME=VALUE is what the gateway's configuration\n" +
			"adds: context extensions, arguments of the check's URL, entries of a descriptor,\n" +
			"arguments of Koala's API, or what a Go program with the middleware knows.",
		Example: "  koalagate explain --rules rules.conf act=vote uid=7\n" +
			"  koalagate explain --rules rules.conf --request 'POST /api/comments' -H 'X-User-Id: ann' --peer 203.0.113.7\n" +
			"  koalagate explain --rules rules.conf --request 'GET /x' --metadata 'envoy.filters.http.jwt_authn payload.sub=ann'\n" +
			"  koalagate explain --rules rules.conf --door ratelimit domain=edge remote_address=203.0.113.7",
	}
	files := reload.Files{Stdin: p.stdin}
	q := inquiry{door: choice{among: doorNames()}, paths: choice{value: "refuse", among: []string{"refuse", "keep"}}}
	format := choice{value: "text", among: []string{"text", "json"}}
	f := c.Flags()
	f.StringArrayVar(&files.Paths, "rules", nil, "rule `PATH`: a file, or a folder of *.conf; may be given several times")
	f.StringVar(&q.request, "request", "", "the client's request as `'METHOD TARGET'`, where the target is a path or a URL")
	f.StringArrayVarP(&q.headers, "header", "H", nil, "`'NAME: VALUE'` of a header; may be given several times")
	f.Var(&q.door, "door", "`DOOR` that the gateway asks at: "+strings.Join(doorNames(), ", ")+" (default extauthz)")
	f.StringVar(&q.peer, "peer", "", "the client's `ADDRESS`, as the gateway sees it")
	f.StringArrayVar(&q.envoy.metadata, "metadata", nil, "`'NAMESPACE PATH=VALUE'` of Envoy's dynamic metadata; may be given several times")
	f.StringVar(&q.envoy.principal, "principal", "", "the `NAME` in the client's certificate, as Envoy says it")
	f.StringVar(&q.envoy.sni, "sni", "", "the `NAME` of the server that the client asked for by TLS, as Envoy says it")
	f.IntVar(&q.hops, "trusted-hops", 0, "`NUMBER` of entries to pass over at the right end of X-Forwarded-For, as the service's trusted_hops")
	f.Var(&q.paths, "malformed-paths", "`WHAT` to do with a path that cannot be decoded, as the service's malformed_paths: refuse or keep")
	f.Uint64Var(&q.hits, "hits", 1, "number of `HITS` that the request stands for")
	f.Var(&format, "format", "`FORMAT` of the explanation: text or json (docs/formats.md)")
	all := f.Bool("all", false, "tell every rule; without it, where more than "+strconv.Itoa(maxNotMet)+" are not met, only the nearest of these (json has all)")
	addParserFlags(c, &files)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := q.read(args); err != nil {
			return err
		}
		e, err := p.explain(c.Context(), files, &q)
		if err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(p.stdout, e)
		}
		printExplanation(p.stdout, e, *all, p.colours())
		return nil
	}
	return c
}

// explain decides the question on its own, and words what was decided.
func (p *program) explain(ctx context.Context, files reload.Files, q *inquiry) (*explanation, error) {
	set, err := p.loadRules(files)
	if err != nil {
		return nil, err
	}
	q.tellSlips(p.stderr, set)
	params, origins, err := q.params(set)
	var refusal *mapping.Refusal
	if errors.As(err, &refusal) {
		return &explanation{Request: q.told(), Params: []explainedParam{}, Rules: []explainedRule{}, Refused: &explainedRefusal{refusal.Status, refusal.Reason}}, nil
	}
	if err != nil {
		return nil, failure{err}
	}
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	d, err := engine.New(set, wiring.CountIn(memory)).Decide(ctx, &engine.Call{
		Rules: set, Door: "explain", Op: engine.Browse, Inputs: []engine.Input{{Params: params, Hits: q.hits, NoHits: q.hits == 0}},
	})
	if err != nil {
		return nil, failure{err}
	}
	x := explainer{set: set, params: params, answer: &d.Answers[0]}
	e := &explanation{Request: q.told(), Params: listed(params, origins), Rules: x.rules(), Decision: x.decision(d), absent: absent(set, params)}
	return e, nil
}

// listed are the parameters of a request with where each came from.
func listed(params *rules.Params, origins map[string]string) []explainedParam {
	list := make([]explainedParam, 0, params.Len())
	for _, p := range params.List() {
		list = append(list, explainedParam{p.Name, p.Value, origins[p.Name]})
	}
	return list
}

// absent are the declared parameters that a request lacks, with where each would
// have come from: most rules that are not met are those of a header that the
// gateway does not send.
func absent(set *rules.Set, params *rules.Params) []explainedParam {
	var list []explainedParam
	for _, d := range set.Params {
		if _, there := params.Get(d.Name); there {
			continue
		}
		sources := make([]string, len(d.Sources))
		for i := range d.Sources {
			sources[i] = d.Sources[i].String()
		}
		list = append(list, explainedParam{d.Name, "", strings.Join(sources, " else ")})
	}
	return list
}

// limit is a rule's method and thresholds in words.
func limit(r *rules.Rule) string {
	window := fmt.Sprintf("%d s", r.Time)
	if r.Time == rules.Day {
		window = "a calendar day"
	}
	switch r.Method {
	case rules.Count:
		return fmt.Sprintf("at most %d in %s", r.Count, window)
	case rules.Base:
		return fmt.Sprintf("%d free a day, then at most %d in %d s", r.Base, r.Count, r.Time)
	case rules.Leak:
		return fmt.Sprintf("at most %d in any %d s", r.Count, r.Time)
	case rules.Token:
		return fmt.Sprintf("a bucket of %d, refilled with %d in %d s", r.Burst, r.Count, r.Time)
	default:
		return r.Method.String()
	}
}
