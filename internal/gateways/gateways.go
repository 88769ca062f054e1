// Package gateways makes the configuration of a gateway for a rule set.
//
// A configuration is the sample of the gateway with other blocks and addresses. A block
// is the lines between two comments:
//
//	# koalagate gateway: begin NAME
//	# koalagate gateway: end
//
// What depends on the rules is in blocks (blocks.go), and the addresses are replaced where
// the sample has them (addresses.go). So the samples, which the end-to-end tests run, are
// the templates, and for the rules that they are made for they do not change.
package gateways

import (
	"fmt"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/deploy"
	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/rules"
)

// File is a file that a gateway needs.
type File struct{ Name, Text string }

// Options are the addresses in a configuration. Those that are empty are the sample's.
type Options struct {
	Listen    string   // where the gateway listens: ADDRESS:PORT
	App       string   // where the application listens: HOST:PORT
	Koalagate []string // where the instances of koalagate listen for this gateway: HOST:PORT
}

// gateway is a kind of gateway.
type gateway struct {
	name    string // of the kind
	file    File   // the sample
	others  []File // that do not depend on the rules
	blocks  map[string]func(*facts) []string
	sample  addresses
	replace func(*replacer, *Options)
}

var gateways = []gateway{
	{
		name: "nginx", file: File{"nginx.conf", nginx.Sample()}, blocks: nginxBlocks,
		sample: addresses{listen: sampleListen, koalagate: sampleKoalagate}, replace: replaceNginx,
	},
	{
		name: "accel", file: File{"nginx.conf", nginx.AccelSample()}, blocks: accelBlocks,
		sample: addresses{listen: sampleListen, koalagate: sampleKoalagate}, replace: replaceNginx,
	},
	{
		name: "caddy", file: File{"Caddyfile", deploy.Caddy()}, blocks: caddyBlocks,
		sample: addresses{listen: sampleListen, koalagate: sampleKoalagate}, replace: replaceCaddy,
	},
	{
		name: "haproxy", file: File{"haproxy.cfg", deploy.HAProxy()}, others: []File{{"koala.lua", deploy.HAProxyAction()}}, blocks: haproxyBlocks,
		sample: addresses{listen: sampleListen, koalagate: sampleKoalagate, own: "127.0.0.1:9980"}, replace: replaceHAProxy,
	},
	{
		name: "traefik", file: File{"traefik.yaml", deploy.Traefik()}, blocks: traefikBlocks,
		sample: addresses{listen: sampleListen, koalagate: sampleKoalagate}, replace: replaceTraefik,
	},
	{
		name: "envoy", file: File{"envoy.yaml", envoy.Sample()}, blocks: envoyBlocks,
		sample: addresses{listen: sampleEnvoy, koalagate: sampleGRPC, own: "127.0.0.1:9901"}, replace: replaceEnvoy,
	},
	{
		name: "envoy-http", file: File{"envoy.yaml", envoy.HTTPSample()}, blocks: envoyHTTPBlocks,
		sample: addresses{listen: sampleEnvoy, koalagate: sampleKoalagate, own: "127.0.0.1:9901"}, replace: replaceEnvoyHTTP,
	},
}

// Names returns the kinds of gateways.
func Names() []string {
	names := make([]string, len(gateways))
	for i := range gateways {
		names[i] = gateways[i].name
	}
	return names
}

// Configure returns the configuration of a kind of gateway for a rule set, and then the
// other files that the gateway needs. The error names an option that the gateway cannot
// have.
func Configure(name string, set *rules.Set, o Options) ([]File, error) {
	g, err := gatewayNamed(name)
	if err != nil {
		return nil, err
	}
	text, err := g.address(&o)
	if err != nil {
		return nil, err
	}
	if text, err = g.fill(text, set); err != nil {
		return nil, err
	}
	return append([]File{{g.file.Name, text}}, g.others...), nil
}

// Blocks returns only the blocks of the configuration, with their comments.
func Blocks(name string, set *rules.Set) (string, error) {
	g, err := gatewayNamed(name)
	if err != nil {
		return "", err
	}
	text, err := g.fill(g.file.Text, set)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		_, begins := beginOf(line)
		if begins && b.Len() > 0 {
			b.WriteByte('\n')
		}
		if inside = inside || begins; inside {
			b.WriteString(line)
		}
		inside = inside && !isEnd(line)
	}
	return b.String(), nil
}

func gatewayNamed(name string) (*gateway, error) {
	i := slices.IndexFunc(gateways, func(g gateway) bool { return g.name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown gateway %q; want one of %s", name, strings.Join(Names(), ", "))
	}
	return &gateways[i], nil
}

// The comments around a block.
const (
	beginComment = "# koalagate gateway: begin "
	endComment   = "# koalagate gateway: end"
)

// beginOf returns the name of the block that begins with a line, and reports whether one does.
func beginOf(line string) (name string, begins bool) {
	return strings.CutPrefix(strings.TrimSpace(line), beginComment)
}

func isEnd(line string) bool { return strings.TrimSpace(line) == endComment }

// fill returns a text of the sample with the blocks for a rule set.
func (g *gateway) fill(text string, set *rules.Set) (string, error) {
	f := g.factsOf(set)
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if inside = inside && !isEnd(line); inside {
			continue // the sample's
		}
		b.WriteString(line)
		name, begins := beginOf(line)
		if !begins {
			continue
		}
		block := g.blocks[name]
		if block == nil {
			return "", fmt.Errorf("the sample for %s has an unknown block %q", g.name, name)
		}
		indent, _, _ := strings.Cut(line, beginComment)
		for _, own := range block(f) {
			b.WriteString(indent + own + "\n")
		}
		inside = true
	}
	return b.String(), nil
}
