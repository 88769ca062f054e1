package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// probe is what `koalagate probe` was asked to do.
type probe struct {
	target   *url.URL
	requests int // at most, until one is refused
	timeout  time.Duration
	method   string
	header   http.Header
	params   []string // names of parameters that clients must not choose

	tls probeTLS

	// For gRPC alone.
	peer       string
	path       string
	domain     string
	descriptor []string

	report report
}

// maxProbes bounds what a slip of the pen sends to somebody's gateway.
const maxProbes = 10_000

func (p *program) probeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "probe URL",
		Short: "Prove from outside that requests are refused",
		Long: "Send requests to a URL behind a gateway, one after the other, until one is refused, and say\n" +
			"what was seen: whether anything is refused at all, with which status, headers and body,\n" +
			"whether connections are kept, and whether a client that forges headers gets past the limit.\n" +
			"grpc://HOST:PORT, grpcs://HOST:PORT with TLS, and unix:/PATH ask a koalagate itself: its health,\n" +
			"ext_authz, and with --domain the rate limit service. The requests are real ones, and use up\n" +
			"the limit that they are counted by.\n\n" +
			"Exit status: 0 if all is well, 1 if something is not, 2 if the command line is wrong.",
		Example: "  koalagate probe http://127.0.0.1:8080/api/comments --method POST --header 'X-User-Id: probe'\n" +
			"  koalagate probe grpc://127.0.0.1:9191 --path /api/comments --method POST\n" +
			"  koalagate probe grpc://127.0.0.1:9191 --domain public --descriptor remote_address=192.0.2.1\n" +
			"  koalagate probe grpcs://koalagate.internal:9191 --ca ca.crt --cert me.crt --key me.key --path /",
	}
	var headers []string
	pr := probe{header: http.Header{}, report: report{w: p.stdout}}
	f := c.Flags()
	f.IntVar(&pr.requests, "requests", 100, "send at most so many `REQUESTS` until one is refused")
	f.DurationVar(&pr.timeout, "timeout", 5*time.Second, "give each request so much `TIME`")
	f.StringVar(&pr.method, "method", http.MethodGet, "`METHOD` of the requests")
	f.StringArrayVar(&headers, "header", nil, "send this `'NAME: VALUE'` too; may be given several times")
	f.StringArrayVar(&pr.params, "param", []string{"act", "uid"}, "try to forge the parameter `NAME`; may be given several times")
	f.StringVar(&pr.tls.ca, "ca", "", "https, grpcs: trust the authorities in this `FILE`, and no others")
	f.StringVar(&pr.tls.cert, "cert", "", "https, grpcs: bring the certificate in this `FILE`")
	f.StringVar(&pr.tls.key, "key", "", "https, grpcs: `FILE` of the certificate's key")
	f.StringVar(&pr.tls.serverName, "server-name", "", "https, grpcs: `NAME` that the other side's certificate must have, if not the URL's")
	f.StringVar(&pr.peer, "peer", "127.0.0.1", "grpc: `ADDRESS` that the request of ext_authz comes from")
	f.StringVar(&pr.path, "path", "/", "grpc: `PATH` that ext_authz is asked about")
	f.StringVar(&pr.domain, "domain", "", "grpc: ask the rate limit service, about this `DOMAIN`")
	f.StringArrayVar(&pr.descriptor, "descriptor", nil, "grpc: `KEY=VALUE` of the descriptor; may be given several times")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := pr.read(args, headers); err != nil {
			return err
		}
		pr.run(c.Context())
		if pr.report.faults > 0 {
			return errReported
		}
		return nil
	}
	return c
}

// read takes what the command line says.
func (p *probe) read(args, headers []string) error {
	if len(args) != 1 {
		return errors.New("give one URL: http://…, https://…, grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH")
	}
	target, err := url.Parse(args[0])
	if err != nil || !canBeProbed(target) {
		return fmt.Errorf("%q is no URL that can be probed; want http://…, https://…, grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH", args[0])
	}
	p.target = target
	if err := p.tls.read(target.Scheme); err != nil {
		return err
	}
	if p.requests < 1 || p.requests > maxProbes {
		return fmt.Errorf("--requests %d; want 1 … %d", p.requests, maxProbes)
	}
	if p.timeout <= 0 {
		return fmt.Errorf("--timeout %v; want more than 0", p.timeout)
	}
	for _, line := range headers {
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return fmt.Errorf("--header %q; want 'NAME: VALUE'", line)
		}
		p.header.Add(name, strings.TrimSpace(value))
	}
	for _, entry := range p.descriptor {
		if key, _, found := strings.Cut(entry, "="); !found || key == "" {
			return fmt.Errorf("--descriptor %q; want KEY=VALUE", entry)
		}
	}
	if len(p.descriptor) > 0 && p.domain == "" {
		return errors.New("--descriptor is of no use without --domain")
	}
	return nil
}

func canBeProbed(target *url.URL) bool {
	switch target.Scheme {
	case "http", "https", "grpc", "grpcs":
		return target.Host != ""
	case "unix":
		return target.Host == "" && strings.HasPrefix(target.Path, "/")
	}
	return false
}

// run looks at the target, and reports.
func (p *probe) run(ctx context.Context) {
	switch p.target.Scheme {
	case "http", "https":
		p.probeHTTP(ctx)
	default:
		p.probeGRPC(ctx)
	}
	p.report.end()
}

// report tells what was seen, line by line.
type report struct {
	w      io.Writer
	faults int
}

func (r *report) line(kind, topic, format string, args ...any) {
	fmt.Fprintf(r.w, "%-6s%-12s %s\n", kind, topic, fmt.Sprintf(format, args...))
}

// ok tells of something that is as it should be.
func (r *report) ok(topic, format string, args ...any) { r.line("ok", topic, format, args...) }

// note tells of something that may be meant.
func (r *report) note(topic, text string) {
	text, more, _ := strings.Cut(text, "\n")
	r.line("note", topic, "%s", text)
	if more != "" {
		r.line("", "", "%s", more)
	}
}

// fault tells of something that is wrong, and what to do about it.
func (r *report) fault(topic, what, mend string) {
	r.faults++
	r.line("FAULT", topic, "%s", what)
	for line := range strings.SplitSeq(mend, "\n") {
		r.line("", "", "%s", line)
	}
}

func (r *report) end() {
	switch r.faults {
	case 0:
		fmt.Fprintln(r.w, "all is well")
	case 1:
		fmt.Fprintln(r.w, "1 fault")
	default:
		fmt.Fprintf(r.w, "%d faults\n", r.faults)
	}
}
