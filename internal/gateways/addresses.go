package gateways

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// replacer replaces addresses in a sample.
type replacer struct {
	sample string
	pairs  []string // the old and the new text of each replacement
	err    error
}

// replace replaces a part of the sample wherever it is. All replacements are made in one pass:
// an address of the options may be one that the sample has elsewhere.
func (r *replacer) replace(from, to string) {
	if r.err == nil && !strings.Contains(r.sample, from) {
		r.err = fmt.Errorf("the sample lacks %q", from)
	}
	r.pairs = append(r.pairs, from, to)
}

// repeat replaces the line about koalagate's address in the sample by one about each of the
// addresses.
func (r *replacer) repeat(sample string, addresses []string, line func(i int, address string) string) {
	var b strings.Builder
	for i, address := range addresses {
		b.WriteString(line(i, address))
	}
	r.replace(line(0, sample), b.String())
}

// address returns the sample with the addresses of the options.
func (g *gateway) address(o *Options) (string, error) {
	if err := g.check(o); err != nil {
		return "", err
	}
	r := &replacer{sample: g.file.Text}
	g.replace(r, o)
	return strings.NewReplacer(r.pairs...).Replace(r.sample), r.err
}

// check reports addresses that the gateway cannot have, and those that two have.
func (g *gateway) check(o *Options) error {
	if o.Koalagate != nil && len(o.Koalagate) == 0 {
		return errors.New("the list of koalagate's addresses is empty; want HOST:PORT of each instance")
	}
	if host, _, err := splitAddress(o.Listen); o.Listen != "" {
		if err != nil {
			return err
		}
		if _, err := netip.ParseAddr(host); err != nil {
			return fmt.Errorf("%q is not where a gateway can listen; want an IP address and a port, such as 0.0.0.0:8080", o.Listen)
		}
	}
	type named struct{ address, of string }
	all := []named{{g.sample.own, "the gateway's own listener"}, {cmp.Or(o.Listen, g.sample.listen), "the gateway"}, {cmp.Or(o.App, sampleApp), "the application"}}
	for _, address := range o.Koalagate {
		all = append(all, named{address, "koalagate"})
	}
	if o.Koalagate == nil {
		all = append(all, named{g.sample.koalagate, "koalagate"})
	}
	known := make(map[string]string, len(all))
	for i, n := range all {
		if _, _, err := splitAddress(n.address); err != nil && i > 0 {
			return fmt.Errorf("the address of %s: %w", n.of, err)
		}
		if other, isKnown := known[n.address]; isKnown && other != n.of {
			return fmt.Errorf("%s and %s both have the address %s; give each its own", other, n.of, n.address)
		}
		known[n.address] = n.of
	}
	return nil
}

// splitAddress reads HOST:PORT.
func splitAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	number, isNumber := strconv.ParseUint(port, 10, 16)
	isWord := strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_") == ""
	if err != nil || isNumber != nil || number == 0 || host == "" || !isWord {
		return "", "", fmt.Errorf("%q is not an address; want HOST:PORT, such as 127.0.0.1:8000", address)
	}
	return host, port, nil
}

// The addresses in the samples.
const (
	sampleListen    = "127.0.0.1:8080"
	sampleApp       = "127.0.0.1:8000"
	sampleKoalagate = "127.0.0.1:9981"
	sampleEnvoy     = "127.0.0.1:10000" // where Envoy listens
	sampleGRPC      = "127.0.0.1:9191"  // of koalagate
)

// addresses are those of a sample that differ between the gateways.
type addresses struct {
	listen, koalagate string
	own               string // where the gateway listens for itself; "" if it does not
}

func replaceNginx(r *replacer, o *Options) {
	if o.Koalagate != nil {
		r.repeat(sampleKoalagate, o.Koalagate, func(_ int, address string) string {
			return "    server " + address + " max_fails=3 fail_timeout=2s;\n"
		})
	}
	r.replaceCommon(o)
}

// replaceCommon replaces the addresses of the gateway and of the application.
func (r *replacer) replaceCommon(o *Options) {
	if o.Listen != "" && o.Listen != sampleListen {
		r.replace(sampleListen, o.Listen)
	}
	if o.App != "" && o.App != sampleApp {
		r.replace(sampleApp, o.App)
	}
}

func replaceCaddy(r *replacer, o *Options) {
	if o.Koalagate != nil {
		r.replace("forward_auth "+sampleKoalagate+" {", "forward_auth "+strings.Join(o.Koalagate, " ")+" {")
	}
	if len(o.Koalagate) > 1 {
		for _, line := range []string{"lb_retries 6\n", "fail_duration 2s\n", "max_fails 3\n"} {
			r.replace("#"+line, line)
		}
	}
	if host, port, err := splitAddress(o.Listen); err == nil {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		r.replace("http://:8080 {\n\tbind 127.0.0.1\n", "http://:"+port+" {\n\tbind "+host+"\n")
	}
	r.replaceCommon(o)
}

func replaceHAProxy(r *replacer, o *Options) {
	if o.Koalagate != nil {
		r.repeat(sampleKoalagate, o.Koalagate, func(i int, address string) string {
			return fmt.Sprintf("    server koalagate%d %s\n", i+1, address)
		})
	}
	r.replaceCommon(o)
}

func replaceTraefik(r *replacer, o *Options) {
	switch len(o.Koalagate) {
	case 0:
	case 1:
		r.replace("http://"+sampleKoalagate+"/", "http://"+o.Koalagate[0]+"/")
	default:
		r.err = fmt.Errorf("Traefik asks one address of koalagate, not %d; name that of a load balancer before the instances", len(o.Koalagate))
	}
	r.replaceCommon(o)
}

// socketAddress returns HOST:PORT as Envoy has it.
func socketAddress(address string) string {
	host, port, _ := net.SplitHostPort(address) // has been checked
	if strings.Contains(host, ":") {
		host = strconv.Quote(host)
	}
	return "address: " + host + ", port_value: " + port + " "
}

// replaceCluster makes Envoy resolve the addresses of a cluster if one is a name.
func (r *replacer) replaceCluster(name string, addresses ...string) {
	isName := func(address string) bool {
		host, _, _ := net.SplitHostPort(address) // has been checked
		return net.ParseIP(host) == nil
	}
	if slices.ContainsFunc(addresses, isName) {
		cluster := "  - name: " + name + "\n    type: "
		r.replace(cluster+"STATIC\n", cluster+"STRICT_DNS\n")
	}
}

// replaceEnvoyCommon replaces the addresses of Envoy and of the application.
func (r *replacer) replaceEnvoyCommon(o *Options) {
	if o.Listen != "" {
		r.replace(sampleEnvoy+"/", o.Listen+"/")
		r.replace(socketAddress(sampleEnvoy), socketAddress(o.Listen))
	}
	if o.App != "" {
		r.replace(socketAddress(sampleApp), socketAddress(o.App))
		r.replaceCluster("app", o.App)
	}
	if o.Koalagate != nil {
		r.replaceCluster("koalagate", o.Koalagate...)
	}
}

func replaceEnvoy(r *replacer, o *Options) {
	if o.Koalagate != nil {
		r.repeat(sampleGRPC, o.Koalagate, func(_ int, address string) string {
			return "        - endpoint: { address: { socket_address: { " + socketAddress(address) + "} } }\n"
		})
	}
	r.replaceEnvoyCommon(o)
}

func replaceEnvoyHTTP(r *replacer, o *Options) {
	if o.Koalagate != nil {
		r.repeat(sampleKoalagate, o.Koalagate, func(_ int, address string) string {
			return "        - endpoint:\n            address: { socket_address: { " + socketAddress(address) + "} }\n            health_check_config: { port_value: 9982 }\n"
		})
	}
	r.replaceEnvoyCommon(o)
}
