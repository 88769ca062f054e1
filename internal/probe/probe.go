// Package probe tests from outside whether a gateway, or koalagate itself,
// refuses requests as it should. It sends real requests, which count against the
// limits that they reach.
package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/mapping"
)

// MaxRequests is the maximum of Options.Requests. It bounds the load that a
// mistyped number puts on a gateway.
const MaxRequests = 10_000

// schemes describes the URLs that can be probed, for errors.
const schemes = "http://…, https://…, grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH"

// The defaults of Options.
const (
	DefaultRequests = 100
	DefaultTimeout  = 5 * time.Second
	DefaultPeer     = "127.0.0.1"
)

// Options configures a probe.
type Options struct {
	// Target is the URL to probe, from ParseTarget: http and https reach a
	// gateway, while grpc, grpcs and unix reach koalagate itself.
	Target *url.URL
	// Requests is the maximum number of requests until one is refused, 1 …
	// MaxRequests.
	Requests int
	// Timeout limits each request; it must be positive.
	Timeout time.Duration
	// Method and Header belong to the requests. "" means GET.
	Method string
	Header http.Header
	// Params are rule parameters that clients must not be able to set.
	Params []string
	// Sources are the sources to vary besides the sources of the requests themselves: all
	// that rules read.
	Sources []Source
	// After checks instead whether the gateway reports the ends of requests, at a URL that a
	// hold rule limits. It applies to http and https.
	After bool
	// TLS configures https and grpcs, see TLSFiles; nil uses the defaults.
	TLS *tls.Config

	// The following options apply to gRPC only. Peer and Path describe the
	// request to authorize. With a Domain, the probe calls the rate limit service
	// instead, with one descriptor.
	Peer, Path, Domain string
	Descriptor         []mapping.Entry

	// OnItem receives each item of the report when it is known, in the goroutine
	// of Run; nil for none.
	OnItem func(Item)
}

// ParseTarget parses a URL that can be probed.
func ParseTarget(text string) (*url.URL, error) {
	target, err := url.Parse(text)
	if err != nil || !isTarget(target) {
		return nil, fmt.Errorf("cannot probe %q; want %s", text, schemes)
	}
	return target, nil
}

func isTarget(u *url.URL) bool {
	switch u.Scheme {
	case "http", "https", "grpc", "grpcs":
		return u.Host != ""
	case "unix":
		return u.Host == "" && strings.HasPrefix(u.Path, "/")
	}
	return false
}

// Run probes the target. The error reports invalid options; problems of the
// target are faults in the report. If ctx ends, the current request fails, which
// is a fault as well.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &prober{Options: o, report: new(Report)}
	if p.Header == nil {
		p.Header = http.Header{}
	}
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	switch o.Target.Scheme {
	case "http", "https":
		p.probeHTTP(ctx)
	default:
		p.probeGRPC(ctx)
	}
	return p.report, nil
}

// check validates the options; errors name the flags of `koalagate probe`.
func (o *Options) check() error {
	switch {
	case o.Target == nil:
		return errors.New("missing URL; want " + schemes)
	case !isTarget(o.Target):
		return fmt.Errorf("cannot probe %q; want %s", o.Target, schemes)
	case o.Requests < 1 || o.Requests > MaxRequests:
		return fmt.Errorf("--requests %d is out of range; want 1 … %d", o.Requests, MaxRequests)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %v must be positive", o.Timeout)
	case o.After && !strings.HasPrefix(o.Target.Scheme, "http"):
		return errors.New("--after needs the URL of a gateway: http://… or https://…")
	case len(o.Descriptor) > 0 && o.Domain == "":
		return errors.New("--descriptor needs --domain")
	}
	return nil
}

// prober is one probe.
type prober struct {
	Options
	report *Report
}
