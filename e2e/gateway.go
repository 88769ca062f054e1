package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// Gateway is a gateway, set up as its sample says.
type Gateway struct {
	*Program
	URL string // without a slash at the end
	// Listeners are Envoy's, by their names, as host:port.
	Listeners map[string]string
}

// Envoy starts Envoy with envoy/envoy.yaml before app, asking the instances.
func (s *Stage) Envoy(app *App, instances ...*Koalagate) (*Gateway, error) {
	endpoint := "        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } }\n"
	var endpoints strings.Builder
	for _, k := range instances {
		fmt.Fprintf(&endpoints, endpoint, portOf(k.GRPC))
	}
	text, err := s.sample("envoy/envoy.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "},
		[2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + portOf(app.Address) + " "},
		[2]string{fmt.Sprintf(endpoint, "9191"), endpoints.String()})
	if err != nil {
		return nil, err
	}
	return s.EnvoyWith(text)
}

// EnvoySample starts Envoy with a sample of the module in which the addresses
// that pairs begin with are replaced, as they stand in it once.
func (s *Stage) EnvoySample(name string, pairs ...[2]string) (*Gateway, error) {
	text, err := s.sample(name, pairs...)
	if err != nil {
		return nil, err
	}
	return s.EnvoyWith(text)
}

// EnvoyWith starts Envoy with a configuration whose own ports are 0.
func (s *Stage) EnvoyWith(text string) (*Gateway, error) {
	path, err := s.Find("envoy")
	if err != nil {
		return nil, err
	}
	file, admin := s.fileName("envoy-%d.yaml", len(s.programs)), s.fileName("envoy-%d.admin", len(s.programs))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := s.start("envoy", path, nil, "-c", file, "--admin-address-path", admin,
		"--disable-hot-restart", "--concurrency", "2", "--log-level", "warn", "--file-flush-interval-msec", "10")
	if err != nil {
		return nil, err
	}
	g := &Gateway{Program: p}
	return g, eventually(p, func() error { return g.envoyListens(admin) })
}

// envoyListens asks Envoy's admin page whether it is up and where it listens;
// the page's own address is in a file.
func (g *Gateway) envoyListens(adminFile string) error {
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
	g.Listeners = make(map[string]string)
	for line := range strings.Lines(string(listeners)) {
		if name, address, found := strings.Cut(strings.TrimSpace(line), "::"); found {
			g.Listeners[name] = address
		}
	}
	if len(g.Listeners) == 0 {
		return fmt.Errorf("envoy lists %q; want its listeners", listeners)
	}
	g.URL = "http://" + g.Listeners["http"]
	return nil
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // the sample then fails to load, and says what stands there
	}
	return port
}
