package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// Gateway is a gateway with the configuration of its sample.
type Gateway struct {
	*Program
	Address string      // host:port
	URL     string      // without a trailing slash
	TLS     *tls.Config // of its clients; nil for plain text
	// Authorization is the header line by which the first of the stage's users
	// authenticates; "" if the gateway does not authenticate.
	Authorization string
	// Listeners maps the names of Envoy's listeners to host:port.
	Listeners map[string]string
}

// Credentials returns Authorization, if it is set, for requests with several headers.
func (g *Gateway) Credentials() []string {
	if g.Authorization == "" {
		return nil
	}
	return []string{g.Authorization}
}

// Envoy starts Envoy with envoy/envoy.yaml in front of app, using the instances.
func (s *Stage) Envoy(app *App, instances ...*Koalagate) (*Gateway, error) {
	endpoint := "        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } }\n"
	var endpoints strings.Builder
	for _, k := range instances {
		fmt.Fprintf(&endpoints, endpoint, portOf(k.GRPC))
	}
	text, err := s.sample("envoy/envoy.yaml",
		[2]string{"port_value: 9901 ", fmt.Sprintf("port_value: %d ", s.samplePort(9901))},
		[2]string{"port_value: 10000 ", fmt.Sprintf("port_value: %d ", s.samplePort(10000))},
		[2]string{"port_value: 8000 ", "port_value: " + portOf(app.Address) + " "},
		[2]string{fmt.Sprintf(endpoint, "9191"), endpoints.String()})
	if err != nil {
		return nil, err
	}
	return s.EnvoyWith(text)
}

// EnvoySample starts Envoy with a sample of the module. Each pair is a text that
// occurs in the sample once, and its replacement.
func (s *Stage) EnvoySample(name string, pairs ...[2]string) (*Gateway, error) {
	text, err := s.sample(name, pairs...)
	if err != nil {
		return nil, err
	}
	return s.EnvoyWith(text)
}

// HotEnvoySample does the same with an Envoy that another one of the next epoch, which begins at
// 0, replaces by a hot restart. The base tells apart the Envoys of this machine.
func (s *Stage) HotEnvoySample(name string, base, epoch int, pairs ...[2]string) (*Gateway, error) {
	text, err := s.sample(name, pairs...)
	if err != nil {
		return nil, err
	}
	return s.envoyWith(text, "--base-id", strconv.Itoa(base), "--restart-epoch", strconv.Itoa(epoch),
		"--drain-time-s", "2", "--parent-shutdown-time-s", "4")
}

// EnvoyWith starts Envoy with a configuration whose listening ports are 0.
func (s *Stage) EnvoyWith(text string) (*Gateway, error) {
	return s.envoyWith(text, "--disable-hot-restart")
}

// envoyWith starts Envoy with arguments about hot restarts.
func (s *Stage) envoyWith(text string, restarts ...string) (*Gateway, error) {
	path, err := s.Find("envoy")
	if err != nil {
		return nil, err
	}
	file, admin := s.fileName("envoy-%d.yaml", len(s.programs)), s.fileName("envoy-%d.admin", len(s.programs))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := s.start("envoy", path, nil, append([]string{
		"-c", file, "--admin-address-path", admin,
		"--concurrency", "2", "--log-level", "warn", "--file-flush-interval-msec", "10",
	}, restarts...)...)
	if err != nil {
		return nil, err
	}
	listeners := make(map[string]string)
	if err := eventually(p, func() error { return envoyListens(admin, listeners) }); err != nil {
		return nil, err
	}
	g := s.gateway(p, listeners["http"])
	g.Listeners = listeners
	return g, nil
}

// envoyListens checks at Envoy's admin page that Envoy is up, and adds the addresses of its
// listeners. The address of the page is in adminFile.
func envoyListens(adminFile string, addresses map[string]string) error {
	admin, err := os.ReadFile(adminFile)
	if err != nil {
		return err
	}
	state, err := get("http://" + string(admin) + "/ready")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(state), "LIVE") {
		return fmt.Errorf("envoy is %q", state)
	}
	listeners, err := get("http://" + string(admin) + "/listeners?format=text")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(listeners)) {
		if name, address, found := strings.Cut(strings.TrimSpace(line), "::"); found {
			addresses[name] = address
		}
	}
	if len(addresses) == 0 {
		return fmt.Errorf("envoy lists %q; want its listeners", listeners)
	}
	return nil
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // the sample then fails to load, with this text in the error
	}
	return port
}
